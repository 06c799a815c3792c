// Finds losses that jump above those of the steps before.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>

namespace darkformer {

// A loss is a spike when it is above the median of the last kWindow losses by more than kDeviations
// times their median absolute deviation. Spikes join the window like any other loss.
class SpikeDetector {
 public:
  static constexpr std::size_t kWindow = 50;
  static constexpr std::size_t kFewest = 10;  // losses before anything can be a spike
  static constexpr double kDeviations = 6;

  // A finite loss. Is it a spike?
  bool add(double loss);

  const std::deque<double>& recent() const { return recent_; }
  void restore(std::deque<double> recent) { recent_ = std::move(recent); }

 private:
  std::deque<double> recent_;  // at most kWindow, the oldest first
};

}  // namespace darkformer
