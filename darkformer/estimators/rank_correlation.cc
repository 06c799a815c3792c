// Ranks with ties, and their correlation.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/estimators/rank_correlation.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "darkformer/base/error.h"

namespace darkformer::estimators {
namespace {

std::vector<double> ranks(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [&](std::size_t i, std::size_t j) { return values[i] < values[j]; });
  std::vector<double> result(values.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) {
      ++end;
    }
    for (std::size_t i = begin; i < end; ++i) {
      result[order[i]] = 0.5 * static_cast<double>(begin + end - 1);
    }
    begin = end;
  }
  return result;
}

}  // namespace

double rank_correlation(std::span<const double> x, std::span<const double> y) {
  require(x.size() == y.size() && x.size() >= 2, "rank correlation of ", x.size(), " and ",
          y.size(), " values; wanted two lists of one length, 2 or more");
  for (std::size_t i = 0; i < x.size(); ++i) {
    require(!std::isnan(x[i]) && !std::isnan(y[i]), "rank correlation: value ", i,
            " is not a number");
  }
  const std::vector<double> a = ranks(x), b = ranks(y);
  const double middle = 0.5 * static_cast<double>(x.size() - 1);
  double ab = 0.0, aa = 0.0, bb = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - middle) * (b[i] - middle);
    aa += (a[i] - middle) * (a[i] - middle);
    bb += (b[i] - middle) * (b[i] - middle);
  }
  return aa > 0.0 && bb > 0.0 ? ab / std::sqrt(aa * bb) : 0.0;
}

}  // namespace darkformer::estimators
