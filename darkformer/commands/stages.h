// The stages of a long command in its folder: each is done once, and a stopped command goes on with
// the first that is not.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "darkformer/commands/command.h"

namespace darkformer {

// FOLDER/run.toml holds the options, FOLDER/stages/NAME.json the result of each finished stage. One
// process, one thread.
class Stages {
 public:
  // Starts the folder, or goes on with it. UsageError: it was begun with other options, or holds
  // something else.
  Stages(std::filesystem::path folder, const Context& context);

  // The result of the stage: read if it was finished before, else made by `work` and kept. A stop
  // inside says that the same command goes on.
  OrderedJson run(const std::string& name, const std::function<OrderedJson()>& work) const;

  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
  const Context& context_;
};

// The options by which two calls of a command differ, as a sentence for the user: "window = 16,
// now 32"; "" where all agree. Threads and what is shown do not matter.
std::string changed_options(const std::string& before, const std::string& now);

}  // namespace darkformer
