// Double sums over keys.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/estimators/output_variance.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "darkformer/estimators/prediction.h"

namespace darkformer::estimators {

double log_cross_moment(const FeatureFamily& family,
                        std::span<const double> q,
                        std::span<const double> k,
                        std::span<const double> other) {
  assert(!family.trigonometric);
  const Vector apart = add(map_key(family, k), map_key(family, other), -1.0);
  double distance = 0.0;
  for (std::size_t l = 0; l < family.rank(); ++l) {
    const double s = family.proposal.values[l];
    const double along = dot(family.proposal.vectors.row(l), apart);
    distance += s / (2.0 * s - 1.0) * along * along;
  }
  return 0.5 * (log_second_moment(family, q, k) + log_second_moment(family, q, other) - distance);
}

double log_output_variance(const FeatureFamily& family,
                           std::span<const double> q,
                           const Matrix& keys,
                           const Matrix& values) {
  const std::size_t S = keys.rows();
  Matrix query(1, q.size());
  std::ranges::copy(q, query.row(0).begin());
  const Matrix attention = exact_attention_of(family, query, keys);  // (1,S)
  const Vector out = multiply(transpose(values), attention.row(0));
  // log of a_s sqrt(E x_s^2), whose largest leaves the sum first
  Vector sizes(S);
  for (std::size_t s = 0; s < S; ++s) {
    sizes[s] = std::log(attention(0, s)) + 0.5 * log_second_moment(family, q, keys.row(s));
  }
  const double most = *std::ranges::max_element(sizes);
  if (!std::isfinite(most)) {
    return most;
  }
  double sum = 0.0;
  for (std::size_t s = 0; s < S; ++s) {
    const Vector off = add(values.row(s), out, -1.0);
    for (std::size_t other = 0; other < S; ++other) {
      const double together = log_cross_moment(family, q, keys.row(s), keys.row(other)) +
                              std::log(attention(0, s)) + std::log(attention(0, other));
      sum += std::exp(together - 2.0 * most) * dot(off, add(values.row(other), out, -1.0));
    }
  }
  return sum > 0.0 ? 2.0 * most + std::log(sum) : -std::numeric_limits<double>::infinity();
}

double bounded_error2(double log_variance, double features, double ignorance) {
  if (ignorance <= 0.0) {
    return 0.0;
  }
  return 1.0 / (std::exp(std::log(features) - log_variance) + 1.0 / ignorance);
}

}  // namespace darkformer::estimators
