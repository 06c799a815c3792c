// How a page of results was made: the command line and its settings.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "darkformer/commands/command.h"

namespace darkformer {

std::string command_line(const Context& context);  // as typed: "darkformer variance --out x"
OrderedJson settings_of(const Context& context);   // every option, version and commit

}  // namespace darkformer
