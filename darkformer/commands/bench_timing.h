// Timing for benchmarks: medians of CPU time, because the machines that run them are shared.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ctime>

#include <algorithm>
#include <functional>
#include <vector>

namespace darkformer {

struct Timing {
  double seconds = 0.0;  // the median of a run, CPU time of the calling thread's process
  double spread = 0.0;   // (third quartile - first) / median
};

inline double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Runs the body once to warm up, then until `budget` seconds and at least five runs have passed.
inline Timing time_runs(const std::function<void()>& body, double budget = 0.3) {
  body();
  std::vector<double> runs;
  for (double total = 0.0; (total < budget || runs.size() < 5) && runs.size() < 200;) {
    const double start = cpu_seconds();
    body();
    runs.push_back(cpu_seconds() - start);
    total += runs.back();
  }
  std::sort(runs.begin(), runs.end());
  const double median = runs[runs.size() / 2];
  return {median, (runs[runs.size() * 3 / 4] - runs[runs.size() / 4]) / median};
}

}  // namespace darkformer
