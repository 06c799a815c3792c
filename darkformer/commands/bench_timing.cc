// Clocks and medians.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/bench_timing.h"

#include <ATen/Parallel.h>

#include <ctime>

#include <algorithm>
#include <chrono>
#include <thread>

#include "darkformer/base/threads.h"

namespace darkformer {
namespace {

bool in_cpu_time() {
  return threads() == 1;
}

double now() {
  timespec time{};
  clock_gettime(in_cpu_time() ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The workers of a parallel run spin for some milliseconds after it, at the cost of what runs next.
void let_workers_rest() {
  if (threads() > 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

Timing summary(const std::vector<double>& runs) {
  std::vector<double> sorted = runs;
  std::sort(sorted.begin(), sorted.end());
  const double median = sorted[runs.size() / 2];
  return {median, (sorted[runs.size() * 3 / 4] - sorted[runs.size() / 4]) / median, runs};
}

}  // namespace

ThreadCount::ThreadCount(int count) : before_(threads()) {
  set_threads(count);
  at::set_num_threads(count);
}

ThreadCount::~ThreadCount() {
  set_threads(before_);
  at::set_num_threads(before_);
}

std::string clock_name() {
  return in_cpu_time() ? "CPU time" : "wall time";
}

std::vector<Timing> time_in_turn(const std::vector<std::function<void()>>& bodies, double budget) {
  constexpr std::size_t kLeastRuns = 5, kMostRuns = 200;
  for (const auto& body : bodies) {
    body();
  }
  std::vector<std::vector<double>> runs(bodies.size());
  std::vector<double> totals(bodies.size());
  const auto open = [&](std::size_t i) {
    return (totals[i] < budget || runs[i].size() < kLeastRuns) && runs[i].size() < kMostRuns;
  };
  for (bool more = true; more;) {
    more = false;
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      if (open(i)) {
        let_workers_rest();
        const double start = now();
        bodies[i]();
        runs[i].push_back(now() - start);
        totals[i] += runs[i].back();
        more = true;
      }
    }
  }
  std::vector<Timing> timings;
  for (const std::vector<double>& times : runs) {
    timings.push_back(summary(times));
  }
  return timings;
}

double ratio_in_turn(const Timing& above, const Timing& below) {
  if (!in_cpu_time()) {
    return *std::min_element(above.runs.begin(), above.runs.end()) /
           *std::min_element(below.runs.begin(), below.runs.end());
  }
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(above.runs.size(), below.runs.size()); ++i) {
    ratios.push_back(above.runs[i] / below.runs[i]);
  }
  return summary(ratios).seconds;
}

Timing time_runs(const std::function<void()>& body, double budget) {
  return time_in_turn({body}, budget).front();
}

}  // namespace darkformer
