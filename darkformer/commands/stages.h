// The stages of a long command in its folder: each is done once, and a stopped command goes on with
// the first that is not.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "darkformer/base/folder_lock.h"
#include "darkformer/commands/command.h"

namespace darkformer {

// FOLDER/run.toml holds the options, FOLDER/stages/NAME.json the result of each finished stage. One
// process, one thread.
class Stages {
 public:
  // Starts the folder, or goes on with it. `first_read` names for some options the stage that is
  // the first to read them: until it is done they may change. UsageError: it was begun with other
  // options, or holds something else. Error: another process works in it.
  Stages(std::filesystem::path folder,
         const Context& context,
         const std::map<std::string, std::string>& first_read = {});

  // Content keys of what the stages read, by option. UsageError: an option's files have changed
  // since they were first given here.
  void keep_inputs(const std::map<std::string, std::uint64_t>& keys) const;

  // The result of the stage: read if it was finished before, else made by `work` and kept. A stop
  // inside says that the same command goes on.
  OrderedJson run(const std::string& name, const std::function<OrderedJson()>& work) const;

  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path file_of(const std::string& stage) const;

  std::filesystem::path folder_;
  const Context& context_;
  std::optional<FolderLock> lock_;
};

// The options by which two calls of a command differ, as a sentence for the user: "window = 16,
// now 32"; "" where all agree. Threads, what is shown and `free` options do not matter.
std::string changed_options(const std::string& before,
                            const std::string& now,
                            const std::set<std::string>& free = {});

}  // namespace darkformer
