// Do two lists of numbers rise together? Spearman's rank correlation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

namespace darkformer::estimators {

// Pearson's correlation of the ranks of x and y, ties at their mean; infinities are the largest
// and smallest. -1 to 1; 0 where all of x or all of y are equal. Error: lengths that differ, fewer
// than 2 values, a value that is no number.
double rank_correlation(std::span<const double> x, std::span<const double> y);

}  // namespace darkformer::estimators
