// What every results file says of the command that made it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "darkformer/commands/command.h"

namespace darkformer {

// "darkformer variance --out variance": the options that were given.
std::string command_line_of(const Context& context);

// Every option that has a value, with version and commit.
OrderedJson settings_of(const Context& context);

}  // namespace darkformer
