// The completion script for bash, from the same fields the program parses with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "darkformer/commands/command.h"

namespace darkformer {

// Needs bash 4 and nothing else; it completes commands, flags, choices and file names.
std::string bash_completion(const std::vector<Command>& commands);

}  // namespace darkformer
