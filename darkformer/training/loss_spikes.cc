// Medians of the last losses.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/training/loss_spikes.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace darkformer {
namespace {

// The upper one of the two in the middle where the number is even.
double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

bool SpikeDetector::add(double loss) {
  bool spike = false;
  if (recent_.size() >= kFewest) {
    std::vector<double> values(recent_.begin(), recent_.end());
    const double centre = median(values);
    for (double& value : values) {
      value = std::abs(value - centre);
    }
    spike = loss - centre > kDeviations * median(values);
  }
  recent_.push_back(loss);
  if (recent_.size() > kWindow) {
    recent_.pop_front();
  }
  return spike;
}

}  // namespace darkformer
