// Where a command may write: it replaces what it wrote itself, and nothing else is ever lost.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace darkformer {

// Says of a path that is there whether this command wrote it.
using IsOwn = std::function<bool(const std::filesystem::path&)>;

// For commands that fill a folder, before any work; `flag` says where it was given. UsageError:
// `out` is a file, a link that leads nowhere, or holds files already and is not the command's own.
// Error: it cannot be written.
void check_out_folder(const std::filesystem::path& out,
                      const IsOwn& is_own = {},
                      const std::string& flag = "--out");
// UsageError: `out` is the folder, or in it.
void check_outside(const std::filesystem::path& out,
                   const std::filesystem::path& model,
                   const std::string& flag = "--out");

// For commands that write a file. UsageError: there is one that this command did not write;
// `content` says what it would hold, `flag` where it was given.
void check_out_file(const std::filesystem::path& out,
                    const IsOwn& is_own,
                    const std::string& content,
                    const std::string& flag = "--out");

// It has a run.toml, which that command writes first.
IsOwn holds_run_of(const std::string& command);
// It has a results.json of that kind.
IsOwn holds_results_of(const std::string& kind);

}  // namespace darkformer
