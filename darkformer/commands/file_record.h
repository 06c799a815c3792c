// Beside a file that a command made, FILE.run.toml: the options and inputs it was made from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "darkformer/commands/command.h"

namespace darkformer {

// Content keys of what a command reads, by option.
using InputKeys = std::map<std::string, std::uint64_t>;

std::filesystem::path file_record(const std::filesystem::path& file);

// A run.toml that --config reads, with a table [inputs].
void write_file_record(const std::filesystem::path& file,
                       const Context& context,
                       const InputKeys& inputs);

// UsageError: the file was made with other options or from other inputs, or nothing tells. It may
// have been moved together with its record.
void check_file_record(const std::filesystem::path& file,
                       const Context& context,
                       const InputKeys& inputs);

}  // namespace darkformer
