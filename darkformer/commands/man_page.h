// The manual page darkformer(1), from the same fields the program parses with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "darkformer/commands/command.h"

namespace darkformer {

// In the man macros of troff; hidden commands are left out. The commands must hold their default
// values.
std::string man_page(const std::vector<Command>& commands, const std::string& version);

}  // namespace darkformer
