// What the fits promise: their defining equations, their optimality, their limits and their errors.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/estimators/fit_family.h"

#include <gtest/gtest.h>

#include <cmath>

#include "darkformer/base/error.h"
#include "darkformer/estimators/gaussian_theory.h"
#include "darkformer/estimators/prediction.h"
#include "darkformer/estimators/random_settings_testing.h"

namespace darkformer::estimators::fit_family_test {
namespace {

// Calls `make`, which must fail with a line that has the part.
template <class Make>
void expect_error(const Make& make, const std::string& part) {
  try {
    make();
    FAIL() << "no error with " << part;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

InputMoments isotropic(double lambda, std::size_t D = 3) {
  return zero_mean_moments(scale(Matrix::identity(D), lambda));
}

double predicted(const FeatureFamily& family, const InputMoments& moments) {
  return expected_log_second_moment(family, moments);
}

TEST(FitFamily, SderfIsTheBestProposalForTheMeanLogarithm) {
  for (std::uint32_t number = 0; number < 10; ++number) {
    const RandomSetting setting(number);
    const InputMoments m = centred(setting.moments);
    FeatureFamily best = fit_family(EstimatorKind::kSderf, m);
    const double least = predicted(best, m);
    const Matrix p = matrix_function(best.proposal, [](double x) { return x; });
    for (std::uint32_t trial = 0; trial < 4; ++trial) {
      const Matrix step = normal_matrix(m.dim(), m.dim(), {9, number, trial});
      best.proposal = symmetric_spectrum(add(p, add(step, transpose(step)), 0.01));
      EXPECT_GT(predicted(best, m), least);
    }
    // oprf is the best of the isotropic ones, so it cannot beat sderf; both beat performer.
    const FeatureFamily oprf = fit_family(EstimatorKind::kOprf, m);
    EXPECT_GE(predicted(oprf, m), least - 1e-14);
    EXPECT_LT(predicted(oprf, m), predicted(fit_family(EstimatorKind::kPerformer, m), m));
    for (const double stretch : {0.98, 1.02}) {
      FeatureFamily other = oprf;
      for (double& value : other.proposal.values) {
        value *= stretch;
      }
      EXPECT_GT(predicted(other, m), predicted(oprf, m));
    }
  }
}

TEST(FitFamily, OprfIsTheFormOfItsPaper) {
  // phi(w, x) = (1 - 4A)^(D/4) exp(A |w|^2 + sqrt(1 - 4A) w . x - |x|^2 / 2)
  const InputMoments m = isotropic(0.2);
  const FeatureFamily oprf = fit_family(EstimatorKind::kOprf, m);
  const double phi = 0.4,
               A = (1.0 - 2.0 * phi - std::sqrt(std::pow(2 * phi + 1, 2) + 8 * phi)) / 16;
  EXPECT_NEAR(oprf.proposal.values[0], 1.0 - 4.0 * A, 1e-14);
  const Matrix white = white_draws(2, 3, false, 1);
  const Vector q = {0.2, -0.5, 0.1};
  const Vector got = log_query_features(oprf, propose(oprf, white), q);
  for (std::size_t j = 0; j < 2; ++j) {
    const double want = 0.75 * std::log(1 - 4 * A) + A * squared_norm(white.row(j)) +
                        std::sqrt(1 - 4 * A) * dot(white.row(j), q) - 0.5 * squared_norm(q);
    EXPECT_NEAR(got[j], want, 1e-12);
  }
}

TEST(FitFamily, AderfBalancesQueriesAndKeysAndKeepsTheKernel) {
  RandomSetting setting(5);
  InputMoments m = setting.moments;
  m.query_covariance = scale(m.query_covariance, 5.0);
  const FeatureFamily family = fit_family(EstimatorKind::kAderf, m);
  const InputMoments after = mapped(m, family.query_map, family.key_map);
  const Matrix difference = add(query_second_moment(after), key_second_moment(after), -1.0);
  EXPECT_LT(largest(difference), 0.02 * largest(query_second_moment(after)));  // the ridge
  EXPECT_NEAR(log_kernel(family, setting.q.row(0), setting.k.row(0)),
              dot(setting.q.row(0), setting.k.row(0)), 1e-10);
  EXPECT_LT(predicted(family, m), predicted(fit_family(EstimatorKind::kOprf, m), m));
}

TEST(FitFamily, CentringMovesTheKernelByAFactorOfTheQueryAlone) {
  const RandomSetting setting(7);
  const std::size_t D = setting.moments.dim();
  const Matrix q = normal_matrix(4, D, {31, 1}), k = normal_matrix(6, D, {31, 2});
  for (std::size_t kind = 0; kind < kEstimatorKinds; ++kind) {
    FitOptions options;
    const auto plain = fit_family(static_cast<EstimatorKind>(kind), setting.moments, options);
    options.centre = true;
    const auto moved = fit_family(static_cast<EstimatorKind>(kind), setting.moments, options);
    const Matrix difference =
        add(exact_attention_of(plain, q, k), exact_attention_of(moved, q, k), -1.0);
    EXPECT_LT(largest(difference), 1e-12) << plain.name;
  }
}

TEST(FitFamily, AttentionEstimatesConvergeToAttention) {
  const RandomSetting setting(2);
  const InputMoments& m = setting.moments;
  const Matrix q = gaussian_rows(5, m.query_mean, m.query_covariance, {33, 1});
  const Matrix k = gaussian_rows(7, m.key_mean, m.key_covariance, {33, 2});
  for (const FeatureFamily& family : setting.families) {
    const Matrix exact = exact_attention_of(family, q, k);
    const auto error = [&](std::size_t F) {
      return largest(add(attention_estimate(family, draw(family, F, 3), q, k), exact, -1.0));
    };
    EXPECT_LT(error(20000), 0.02) << family.name;
    EXPECT_LT(error(20000), error(20)) << family.name;
  }
}

TEST(FitFamily, NearTheBoundaryAndSingular) {
  // lambda -> 1/2 from below: the formula's digits stay, because nothing cancels.
  for (const double left : {1e-3, 1e-9, 1e-14}) {
    const double lambda = 0.5 - left;
    const Matrix best = optimal_covariance(scale(Matrix::identity(2), lambda));
    const double want = (1.0 + 2.0 * lambda) / (1.0 - 2.0 * lambda);
    EXPECT_NEAR(best(0, 0) / want, 1.0, 1e-12);
  }
  // Singular and zero moments fit every kind.
  Matrix singular(3, 3);
  singular(0, 0) = 0.3;
  for (const Matrix& covariance : {singular, Matrix(3, 3)}) {
    for (std::size_t kind = 0; kind < kEstimatorKinds; ++kind) {
      const auto family =
          fit_family(static_cast<EstimatorKind>(kind), zero_mean_moments(covariance));
      const Vector q = {0.3, 0.0, 0.0};
      EXPECT_TRUE(std::isfinite(log_second_moment(family, q, q))) << family.name;
      EXPECT_NEAR(log_kernel(family, q, q), 0.09, 1e-9) << family.name;
    }
  }
}

TEST(FitFamily, ClippingGivesAProposalWhereTheOptimumHasNone) {
  FitOptions options;
  options.clip = 0.1;
  const FeatureFamily clipped = fit_family(EstimatorKind::kImportance, isotropic(2.0), options);
  EXPECT_NEAR(clipped.proposal.values[0], 10.0, 1e-9);
  const FeatureFamily same = fit_family(EstimatorKind::kImportance, isotropic(0.1), options),
                      free = fit_family(EstimatorKind::kImportance, isotropic(0.1));
  EXPECT_NEAR(same.proposal.values[0], free.proposal.values[0], 1e-12);
}

TEST(FitFamily, InvalidSettingsNameTheOffendingValue) {
  expect_error([] { fit_family(EstimatorKind::kImportance, isotropic(0.625)); }, "0.625");
  expect_error([] { fit_family(EstimatorKind::kImportance, isotropic(0.5)); }, "0.5;");
  InputMoments unequal = isotropic(0.2);
  unequal.query_covariance = scale(Matrix::identity(3), 2.0);  // 1/5 + 1/1.4 - 1
  expect_error([&] { fit_family(EstimatorKind::kImportance, unequal); }, "-0.0857143");
  expect_error([] { proposal_family("p", Matrix::diagonal(Vector{1.0, 0.375})); }, "0.375");
  expect_error([] { draw(plain_family("performer", 3), 0, 1); }, "0 features");
  FitOptions tall;
  tall.factor = Matrix(4, 3, 1.0);
  expect_error([&] { fit_family(EstimatorKind::kDark, isotropic(0.1), tall); }, "4 x 3");
  FitOptions flat;
  flat.factor = Matrix::diagonal(Vector{1.0, 0.0, 1.0});
  expect_error([&] { fit_family(EstimatorKind::kWeighted, isotropic(0.1), flat); }, "eigenvalue 0");
  FitOptions zero;
  zero.clip = -1.0;
  expect_error([&] { fit_family(EstimatorKind::kImportance, isotropic(0.1), zero); }, "-1");
  InputMoments broken = isotropic(0.1);
  broken.key_covariance(1, 1) = std::nan("");
  for (std::size_t kind = 0; kind < kEstimatorKinds; ++kind) {
    expect_error([&] { fit_family(static_cast<EstimatorKind>(kind), broken); }, "nan");
  }
  broken.key_covariance(1, 1) = -0.25;
  expect_error([&] { fit_family(EstimatorKind::kSderf, broken); }, "-0.25");
  expect_error([] { features_needed(1.0, 0.0); }, "error of 0");
}

}  // namespace
}  // namespace darkformer::estimators::fit_family_test
