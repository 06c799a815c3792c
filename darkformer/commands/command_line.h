// Command lines to commands with their options set; help and usage errors on the way.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "darkformer/commands/command.h"

namespace darkformer {

struct Invocation {
  // Set when a text (help, version) is all the user wanted.
  std::string answer;
  // Otherwise the command to run, whose options are set.
  Command* command = nullptr;
};

// Parses the arguments (without the program's name) into one of the commands and the common
// options. Reads a --config file where the command takes one. Throws UsageError for anything the
// user got wrong: one line, with the nearest known name for a mistyped one.
Invocation parse_command_line(const std::vector<std::string>& arguments,
                              std::vector<Command>& commands,
                              std::vector<Field>& common);

}  // namespace darkformer
