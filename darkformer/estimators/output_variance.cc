// Double sums over keys.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/estimators/output_variance.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "darkformer/estimators/prediction.h"

namespace darkformer::estimators {

namespace {

// |u - u'|^2_K of two keys
double key_distance2(const FeatureFamily& family,
                     std::span<const double> k,
                     std::span<const double> other) {
  const Vector apart = add(map_key(family, k), map_key(family, other), -1.0);
  double distance = 0.0;
  for (std::size_t l = 0; l < family.rank(); ++l) {
    const double s = family.proposal.values[l];
    const double along = dot(family.proposal.vectors.row(l), apart);
    distance += s / (2.0 * s - 1.0) * along * along;
  }
  return distance;
}

// How one query looks at all keys, (S).
Vector attention_of_query(const FeatureFamily& family,
                          std::span<const double> q,
                          const Matrix& keys) {
  Matrix query(1, q.size());
  std::ranges::copy(q, query.row(0).begin());
  const Matrix attention = exact_attention_of(family, query, keys);  // (1,S)
  return {attention.row(0).begin(), attention.row(0).end()};
}

}  // namespace

double log_cross_moment(const FeatureFamily& family,
                        std::span<const double> q,
                        std::span<const double> k,
                        std::span<const double> other) {
  assert(!family.trigonometric);
  return 0.5 * (log_second_moment(family, q, k) + log_second_moment(family, q, other) -
                key_distance2(family, k, other));
}

double log_output_variance(const FeatureFamily& family,
                           std::span<const double> q,
                           const Matrix& keys,
                           const Matrix& values) {
  const std::size_t S = keys.rows();
  const Vector attention = attention_of_query(family, q, keys);
  const Vector out = multiply(transpose(values), attention);
  // log of a_s sqrt(E x_s^2), whose largest leaves the sum first
  Vector sizes(S);
  for (std::size_t s = 0; s < S; ++s) {
    sizes[s] = std::log(attention[s]) + 0.5 * log_second_moment(family, q, keys.row(s));
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
                              std::log(attention[s]) + std::log(attention[other]);
      sum += std::exp(together - 2.0 * most) * dot(off, add(values.row(other), out, -1.0));
    }
  }
  return sum > 0.0 ? 2.0 * most + std::log(sum) : -std::numeric_limits<double>::infinity();
}

double typical_beta(int step) {
  return std::pow(0.85, step);
}

TypicalEstimate typical_estimate(const FeatureFamily& family,
                                 double features,
                                 std::span<const double> q,
                                 std::span<const double> k) {
  const double draws = std::log(features);
  TypicalEstimate typical{0.0, std::exp(std::min(log_second_moment(family, q, k) - draws, 0.0))};
  for (int step = 1; step < kTypicalSteps; ++step) {
    const double beta = typical_beta(step);
    const double bound = (draws + log_moment(family, beta, q, k)) / beta - draws;
    if (bound < typical.log_estimate) {
      typical = {bound, kStableVariance * (1.0 / (beta * beta) - 1.0)};
    }
  }
  return typical;
}

double predicted_error2(const FeatureFamily& family,
                        double features,
                        std::span<const double> q,
                        const Matrix& keys,
                        const Matrix& values) {
  const std::size_t S = keys.rows();
  const Vector attention = attention_of_query(family, q, keys);
  Vector typical(S), deviation(S);
  double sum = 0.0;
  for (std::size_t s = 0; s < S; ++s) {
    const TypicalEstimate estimate = typical_estimate(family, features, q, keys.row(s));
    typical[s] = attention[s] * std::exp(estimate.log_estimate);
    deviation[s] = std::sqrt(estimate.variance);
    sum += typical[s];
  }
  for (double& p : typical) {
    p /= sum;
  }
  const Vector out = multiply(transpose(values), attention),
               typical_out = multiply(transpose(values), typical);
  double spread = 0.0, c = 0.0;
  for (std::size_t s = 0; s < S; ++s) {
    spread += typical[s] * squared_norm(add(values.row(s), typical_out, -1.0));
    for (std::size_t other = 0; other < S; ++other) {
      c += typical[s] * typical[other] * deviation[s] * deviation[other] *
           std::exp(-0.5 * key_distance2(family, keys.row(s), keys.row(other)));
    }
  }
  const double first_order =
      std::exp(log_output_variance(family, q, keys, values) - std::log(features));
  return squared_norm(add(typical_out, out, -1.0)) + std::min(first_order, spread * c / (1.0 + c));
}

}  // namespace darkformer::estimators
