// Where the theory ends: infinite variances, and orthogonal draws, whose variance no formula here
// gives. Findings, stated as tests.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "darkformer/estimators/confidence.h"
#include "darkformer/estimators/gaussian_theory.h"
#include "darkformer/estimators/householder_draws.h"
#include "darkformer/estimators/prediction.h"
#include "darkformer/estimators/random_settings_testing.h"

namespace darkformer::estimators::boundaries_test {
namespace {

TEST(Boundaries, IsotropicDrawsHaveInfiniteMeanVarianceFromOneSixthOn) {
  const auto objective = [](double lambda) {
    const InputMoments m = zero_mean_moments(Matrix::diagonal(Vector{lambda, 0.01}));
    return log_objective(m, {Vector(2, 0.0), Matrix::identity(2)});
  };
  EXPECT_TRUE(std::isfinite(objective(1.0 / 6.0 - 1e-9)));
  EXPECT_TRUE(std::isinf(objective(1.0 / 6.0 + 1e-9)));
  // The optimal proposal's is finite up to 1/2, so there "strictly less" compares with infinity.
  EXPECT_TRUE(std::isfinite(log_least_objective(zero_mean_moments(Matrix(1, 1, 0.499)))));
}

TEST(Boundaries, WeightedDrawsHaveInfiniteVarianceFromTwoOn) {
  const Vector q = {0.1, 0.2};
  for (const double sigma : {1.999, 2.0, 2.001}) {
    FitOptions options;
    options.factor = Matrix::diagonal(Vector{std::sqrt(sigma), 1.0});
    const FeatureFamily family =
        fit_family(EstimatorKind::kWeighted, zero_mean_moments(Matrix::identity(2)), options);
    EXPECT_EQ(std::isinf(log_second_moment(family, q, q)), sigma > 1.9995) << sigma;
    // A confidence interval on the variance itself needs four moments: eigenvalues below 4/3.
    EXPECT_TRUE(std::isinf(log_moment(family, 4, q, q)));
  }
}

TEST(Boundaries, OrthogonalDrawsAreUnbiasedWithAnotherVarianceThanTheFormula) {
  constexpr std::size_t kBlocks = 100000, kSize = 2;
  const Vector q = {0.6, 0.1}, k = {0.4, 0.1};
  for (const bool orthogonal : {false, true}) {
    FeatureFamily family = plain_family("performer", kSize);
    family.orthogonal = orthogonal;
    const Vector terms = relative_terms(family, draw(family, kBlocks * kSize, 3, 2), q, k);
    EXPECT_TRUE(measure(block_means(terms, kSize)).covers(1.0));
    // The covariance of the two draws of a block: zero in the closed form, below it here.
    Vector products;
    for (std::size_t i = 0; i < terms.size(); i += kSize) {
      products.push_back((terms[i] - 1.0) * (terms[i + 1] - 1.0));
    }
    const Measured covariance = measure(products);
    EXPECT_EQ(covariance.covers(0.0), !orthogonal);
    EXPECT_EQ(covariance.high() < 0.0, orthogonal) << covariance.mean;
  }
}

TEST(Boundaries, HouseholderDrawsWithoutTheSignFixAreBiased) {
  const std::size_t D = 8;
  const FeatureFamily family = plain_family("performer", D);
  Vector q(D, 0.0), k(D, 0.0);
  q[0] = k[0] = 0.5;
  for (const bool fixed : {true, false}) {
    const FeatureDraws draws = propose(family, householder_draws(20000 * D, D, fixed, {5}));
    const Measured measured = measure(block_means(relative_terms(family, draws, q, k), D));
    EXPECT_EQ(measured.covers(1.0), fixed) << measured.mean;
  }
}

}  // namespace
}  // namespace darkformer::estimators::boundaries_test
