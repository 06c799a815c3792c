// run.toml: the options of a run, written resolved and read back by --config and --resume.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <utility>
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

// The command that a run.toml's text names; "" where it names none.
std::string command_of(const std::string& text);

// Sets the fields that are not given yet from the file: its table [options], or its top level when
// there is none. An unknown name, a wrong type or the `command` of another command is a UsageError
// that names file, line and column. Relative paths are taken as on the command line.
void read_run_toml(const std::filesystem::path& file,
                   const std::string& command,
                   std::vector<Field>& fields);

// Every option of a file with its value as typed, by name, whatever its command.
std::vector<std::pair<std::string, std::string>> kept_options(const std::filesystem::path& file);

// An option with another value than the one that the file keeps.
struct ChangedOption {
  const Field* field;
  std::string before;  // as typed; empty: it had none
  std::string now;
};
// Those of the fields, but the momentary ones. Errors as read_run_toml.
std::vector<ChangedOption> changed_options(const std::filesystem::path& file,
                                           const std::string& command,
                                           const std::vector<Field>& fields);

// For commands with --resume and --out, when --resume is given: a run whose own run.toml is
// `config` goes on in the folder it lies in, wherever that was moved, unless --out was typed; and
// what is not given is as the run's run.toml keeps it.
void follow_run(const std::filesystem::path& config,
                bool out_typed,
                const std::string& command,
                std::vector<Field>& fields);

}  // namespace darkformer
