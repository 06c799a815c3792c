// docs/cli.md: the reference of all commands, from the same fields the program parses with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "darkformer/commands/command.h"

namespace darkformer {

// Markdown; hidden commands are left out. The commands must hold their default values.
std::string cli_reference(const std::vector<Command>& commands);

// "darkformer eval MODEL --data FILE... [options]"
std::string usage_line(const Command& command);

// "-F, --features N"
std::string field_usage(const Field& field);

// The help of one field with its choices and its default.
std::string full_help(const Field& field);

}  // namespace darkformer
