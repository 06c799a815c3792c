// Sample means, summed relative to the first value.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/estimators/confidence.h"

#include <cassert>
#include <cmath>

namespace darkformer::estimators {
namespace {

double mean_of(std::span<const double> sample) {
  double sum = 0.0;
  for (const double value : sample) {
    sum += value - sample[0];
  }
  return sample[0] + sum / static_cast<double>(sample.size());
}

}  // namespace

Measured measure(std::span<const double> sample) {
  assert(sample.size() > 1);
  const double mean = mean_of(sample), count = static_cast<double>(sample.size());
  double squares = 0.0;
  for (const double value : sample) {
    squares += (value - mean) * (value - mean);
  }
  return {mean, std::sqrt(squares / (count - 1.0) / count)};
}

Measured measure_known(std::span<const double> sample, double deviation) {
  return {mean_of(sample), deviation / std::sqrt(static_cast<double>(sample.size()))};
}

std::vector<double> block_means(std::span<const double> values, std::size_t size) {
  std::vector<double> means;
  for (std::size_t i = 0; i + size <= values.size(); i += size) {
    means.push_back(mean_of(values.subspan(i, size)));
  }
  return means;
}

}  // namespace darkformer::estimators
