// Random inputs, means and covariances where the fourth moments of every estimator exist.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "darkformer/base/philox.h"
#include "darkformer/estimators/fit_family.h"
#include "darkformer/estimators/random_inputs.h"

namespace darkformer::estimators {

// Moments, one pair of inputs drawn from them, and all estimators fitted to them.
struct RandomSetting {
  explicit RandomSetting(std::uint32_t number) {
    const Philox random(17, number);
    const std::size_t D = 1 + random.below(0, 6);
    const double size = 0.02 + 0.1 * random.uniform(2), condition = 1.0 + 9.0 * random.uniform(4);
    const double mean = size / static_cast<double>(D);
    const auto covariance = [&](std::uint32_t index) {
      return covariance_with(geometric_spectrum(D, mean, condition),
                             random_rotation(D, {17, number, index}));
    };
    const Matrix means = scale(normal_matrix(2, D, {17, number, 3}), std::sqrt(0.5 * mean));
    moments = {Vector(means.row(0).begin(), means.row(0).end()),
               Vector(means.row(1).begin(), means.row(1).end()), covariance(1), covariance(2)};
    q = gaussian_rows(1, moments.query_mean, moments.query_covariance, {17, number, 4});
    k = gaussian_rows(1, moments.key_mean, moments.key_covariance, {17, number, 5});
    FitOptions options;
    // Eigenvalues of Sigma below 6/5, so that six moments of the weighted form exist.
    options.factor =
        covariance_with(geometric_spectrum(D, 0.97, 1.1), random_rotation(D, {17, number, 6}));
    for (std::size_t kind = 0; kind < kEstimatorKinds; ++kind) {
      for (const bool centre : {false, true}) {
        options.centre = centre;
        families.push_back(fit_family(static_cast<EstimatorKind>(kind), moments, options));
      }
    }
  }

  InputMoments moments;
  Matrix q, k;  // one row each
  std::vector<FeatureFamily> families;
};

}  // namespace darkformer::estimators
