// run.toml: the options of a run, written resolved and read back by --config and --resume.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "darkformer/commands/field.h"

namespace darkformer {

// The text of a run.toml: `command`, a table [options] with every field that has a value (paths
// made absolute, in the order of the fields) and a table [made_by] with version, commit and
// machine.
std::string run_toml_text(const std::string& command, const std::vector<Field>& fields);
void write_run_toml(const std::filesystem::path& file,
                    const std::string& command,
                    const std::vector<Field>& fields);

// Sets the fields that are not given yet from the file: its table [options], or its top level when
// there is none. An unknown name, a wrong type or the `command` of another command is a UsageError
// that names file, line and column. Relative paths are taken as on the command line.
void read_run_toml(const std::filesystem::path& file,
                   const std::string& command,
                   std::vector<Field>& fields);

}  // namespace darkformer
