// Sample means, summed relative to the first value.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/estimators/confidence.h"

#include <array>
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

double student_deviations(std::size_t degrees) {
  assert(degrees > 0);
  static constexpr std::array kTable = {12.7062, 4.3027, 3.1824, 2.7764, 2.5706,
                                        2.4469,  2.3646, 2.3060, 2.2622, 2.2281};
  if (degrees <= kTable.size()) {
    return kTable[degrees - 1];
  }
  // Expansion in 1 / degrees about the normal quantile (Abramowitz and Stegun 26.7.5): four digits.
  constexpr double z = 1.959964;
  const double n = static_cast<double>(degrees), z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
  return z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * n * n * n);
}

std::vector<double> block_means(std::span<const double> values, std::size_t size) {
  std::vector<double> means;
  for (std::size_t i = 0; i + size <= values.size(); i += size) {
    means.push_back(mean_of(values.subspan(i, size)));
  }
  return means;
}

}  // namespace darkformer::estimators
