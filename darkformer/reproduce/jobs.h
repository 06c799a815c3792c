// Jobs as child processes of the program, several at once; finished ones are not repeated.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "darkformer/base/json.h"
#include "darkformer/reproduce/plan.h"

namespace darkformer::reproduce {

struct JobOptions {
  std::filesystem::path folder;   // children run in it; jobs/NAME.json are the finished ones
  std::filesystem::path program;  // absolute
  int at_once = 1;
  std::function<void(const Job& job)> finished = {};  // not those that were before
};

bool is_finished(const std::filesystem::path& folder, const Job& job);
// By its name alone, which holds its arguments.
bool has_result(const std::filesystem::path& folder, const std::string& name);

// Does what is not done yet, each job after those it needs, and those that are timed alone. A job
// is finished when jobs/NAME.json is there, which is written whole: the arguments, the seconds and
// the JSON object the child printed last. Children end with this process, however it ends.
// Error: the first job that failed, with the child's own line (the others are let finish); a
// folder that another process works in. Interrupted: after SIGINT or SIGTERM, which the children
// get too.
void run_jobs(const std::vector<Job>& jobs, const JobOptions& options);

// What a finished job printed. Error naming the job where it is not finished.
OrderedJson job_result(const std::filesystem::path& folder, const std::string& name);

}  // namespace darkformer::reproduce
