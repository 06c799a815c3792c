// Means of samples with intervals of stated confidence.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace darkformer::estimators {

// Half-width, in standard errors, of every statistical check here. A normal mean is further off
// with probability 6e-14; with the skewness of the mean at most kMostSkewness that grows to about
// exp(skewness deviations^3 / 6) times as much, 7e-11 (Cramer). Ten thousand checks in one run
// then raise a false alarm with probability below 1e-6.
inline constexpr double kDeviations = 7.5;
inline constexpr double kMostSkewness = 0.1;

struct Measured {
  double mean = 0.0;
  double error = 0.0;  // standard error of the mean

  double low() const { return mean - kDeviations * error; }
  double high() const { return mean + kDeviations * error; }
  bool covers(double value) const { return low() <= value && value <= high(); }
};

// The mean with the standard error the sample itself shows; 2 values or more.
Measured measure(std::span<const double> sample);
// The mean with a standard error from the known standard deviation of one value.
Measured measure_known(std::span<const double> sample, double deviation);
// Half-width, in standard errors, of the two-sided 95 % interval of a mean of normal values whose
// deviation is estimated with so many degrees of freedom (values - 1), at least 1: Student's t.
double student_deviations(std::size_t degrees);
// The means of consecutive blocks of `size` values, for values that depend on each other within a
// block.
std::vector<double> block_means(std::span<const double> values, std::size_t size);

}  // namespace darkformer::estimators
