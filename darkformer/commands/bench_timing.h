// Timing for benchmarks: medians of runs in turn, because the machines that run them are shared.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace darkformer {

struct Timing {
  double seconds = 0.0;      // the median of a run
  double spread = 0.0;       // (third quartile - first) / median
  std::vector<double> runs;  // in their order

  bool measured() const { return seconds > 0.0; }
};

// So many threads for our loops and libtorch's while it lives.
class ThreadCount {
 public:
  explicit ThreadCount(int count);
  ~ThreadCount();
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

// What the seconds are: CPU time of the process on one thread, which other people's load changes
// little; wall time on more, because threads that wait for each other use CPU time too.
std::string clock_name();  // "CPU time", "wall time"

// Runs the bodies in turn, once to warm up, then until each has had `budget` seconds and five runs
// (and not more than 200). What disturbs one run disturbs its neighbours, so that ratios stay.
std::vector<Timing> time_in_turn(const std::vector<std::function<void()>>& bodies,
                                 double budget = 0.3);
// How many times as long `above` takes as `below`. CPU time: the median over the turns that both
// took part in, because the machine may change its speed between turns. Wall time: of the fastest
// runs, because what others take from the machine only adds to a run, and one thread is enough.
double ratio_in_turn(const Timing& above, const Timing& below);
Timing time_runs(const std::function<void()>& body, double budget = 0.3);

}  // namespace darkformer
