// --nproc: the ranks of a run as processes of this machine, ended together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace darkformer {

// What a launched rank ends with when another one is gone: the launcher knows more, and tells.
inline constexpr int kExitRankLost = 75;

// Was this process started by launch_ranks?
bool is_launched_rank();

struct Launch {
  int ranks = 1;
  int threads = 1;                      // of each rank, unless the command line says it
  std::chrono::seconds timeout{};       // of a rank that does not answer
  std::function<std::string()> way_on;  // what the user can do after a failure: the end of the line
};

// Runs this process' own command line once for each rank and waits for all of them. Rank 0 has our
// standard output and error; what the others say is shown if they fail. Ctrl-C and SIGTERM are
// handed on. When a rank fails, dies or is stopped, the others are ended too:
//   ReportedFailure: rank 0 has told already    Error: otherwise, naming the rank
// When this process is killed the ranks end as well.
void launch_ranks(const Launch& launch);

}  // namespace darkformer
