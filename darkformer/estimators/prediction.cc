// Closed forms along the axes of the proposal.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/estimators/prediction.h"

#include <cassert>
#include <cmath>
#include <limits>

#include "darkformer/base/error.h"

namespace darkformer::estimators {
namespace {

constexpr double kDivergent = std::numeric_limits<double>::infinity();

// log of E[cos^n(x)] e^(n d/2) for x ~ N(0, d)
double log_cosine_moment(double order, double d) {
  if (order == 1.0) {
    return 0.0;
  }
  if (order == 2.0) {  // (e^d + e^-d) / 2, safe for large d
    return d + std::log1p(std::expm1(-2.0 * d) / 2.0);
  }
  require(order == 4.0, "moment ", order, " of trigonometric features; wanted 1, 2 or 4");
  return 2.0 * d + std::log(3.0 / 8.0 + std::exp(-2.0 * d) / 2.0 + std::exp(-8.0 * d) / 8.0);
}

// One axis: proposal s, squared input z2.
double log_axis_moment(double n, double s, double z2) {
  const double left = n - (n - 1.0) / s;
  if (left <= 0.0) {
    return kDivergent;
  }
  return 0.5 * (n - 1.0) * std::log(s) - 0.5 * std::log(left) + 0.5 * z2 * (n * n / left - n);
}

}  // namespace

double log_moment(const FeatureFamily& family,
                  double order,
                  std::span<const double> q,
                  std::span<const double> k) {
  require(order > 0.0, "moment ", order, "; wanted a number above 0");
  const Vector u_q = map_query(family, q), u_k = map_key(family, k);
  if (family.trigonometric) {
    return log_cosine_moment(order, squared_norm(add(u_q, u_k, -1.0)));
  }
  const Vector z = add(u_q, u_k);
  double sum = 0.0;
  for (std::size_t l = 0; l < family.rank(); ++l) {
    const double along = dot(family.proposal.vectors.row(l), z);
    sum += log_axis_moment(order, family.proposal.values[l], along * along);
  }
  return sum;
}

double log_second_moment(const FeatureFamily& family,
                         std::span<const double> q,
                         std::span<const double> k) {
  return log_moment(family, 2, q, k);
}

double relative_variance(double log_second_moment, std::size_t features) {
  require(features > 0, "the variance of ", features, " features; wanted at least 1");
  return std::expm1(log_second_moment) / static_cast<double>(features);
}

double features_needed(double log_second_moment, double error) {
  require(error > 0.0, "features for a relative error of ", error, "; wanted a number above 0");
  return std::max(1.0, std::expm1(log_second_moment) / (error * error));
}

double predicted_sample_size(double log_second_moment, std::size_t features) {
  return static_cast<double>(features) * std::exp(-log_second_moment);
}

double expected_log_second_moment(const FeatureFamily& family, const InputMoments& moments) {
  assert(!family.trigonometric);
  InputMoments shifted = moments;
  shifted.query_mean = add(moments.query_mean, family.query_center, -1.0);
  shifted.key_mean = add(moments.key_mean, family.key_center, -1.0);
  const Matrix sums = sum_second_moment(mapped(shifted, family.query_map, family.key_map));
  double total = 0.0;
  for (std::size_t l = 0; l < family.rank(); ++l) {
    const auto axis = family.proposal.vectors.row(l);
    total += log_axis_moment(2, family.proposal.values[l], dot(axis, multiply(sums, axis)));
  }
  return total;
}

}  // namespace darkformer::estimators
