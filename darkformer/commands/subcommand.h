// A command of the program as a step of another.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "darkformer/commands/command.h"

namespace darkformer {

// Runs the command line (the command's name first) in this process and gives what it prints under
// --json. Threads, seed, remarks and progress are those of the outer command; what the inner one
// throws comes through.
OrderedJson run_subcommand(const std::vector<std::string>& arguments, const Context& outer);

// "darkformer convert gemma-2b --out 'my folder'": as a user would type it.
std::string shell_line(const std::vector<std::string>& arguments);

}  // namespace darkformer
