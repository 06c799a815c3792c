// The predicted error of attention's output against attention with drawn features.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/estimators/output_variance.h"

#include <algorithm>

#include "darkformer/estimators/confidence.h"
#include "darkformer/estimators/prediction.h"
#include "darkformer/estimators/random_settings_testing.h"

namespace darkformer::estimators::output_variance_test {
namespace {

constexpr std::uint32_t kSettings = 12;

TEST(CrossMoment, IsTheMeanOfTheProduct) {
  for (std::uint32_t number = 0; number < kSettings; ++number) {
    const RandomSetting s(number);
    const Matrix other =
        gaussian_rows(1, s.moments.key_mean, s.moments.key_covariance, {3, number});
    const Matrix white = white_draws(20000, s.q.cols(), false, 5, number);
    for (const FeatureFamily& family : s.families) {
      if (family.trigonometric) {
        continue;
      }
      const FeatureDraws draws = propose(family, white);
      Vector products = relative_terms(family, draws, s.q.row(0), s.k.row(0));
      const Vector beside = relative_terms(family, draws, s.q.row(0), other.row(0));
      std::ranges::transform(products, beside, products.begin(), std::multiplies<>());
      const double predicted =
          std::exp(log_cross_moment(family, s.q.row(0), s.k.row(0), other.row(0)));
      EXPECT_TRUE(measure(products).covers(predicted))
          << family.name << " in setting " << number << ": " << measure(products).mean
          << " against " << predicted;
    }
  }
}

TEST(CrossMoment, OfAKeyWithItselfIsItsSecondMoment) {
  const RandomSetting s(4);
  for (const FeatureFamily& family : s.families) {
    if (!family.trigonometric) {
      EXPECT_NEAR(log_cross_moment(family, s.q.row(0), s.k.row(0), s.k.row(0)),
                  log_second_moment(family, s.q.row(0), s.k.row(0)), 1e-12);
    }
  }
}

// |o_hat - o|^2 of one set of draws.
double squared_error(const FeatureFamily& family,
                     const FeatureDraws& draws,
                     const Matrix& q,
                     const Matrix& k,
                     const Matrix& v) {
  const Matrix off =
      add(attention_estimate(family, draws, q, k), exact_attention_of(family, q, k), -1.0);
  return squared_norm(multiply(transpose(v), off.row(0)));
}

TEST(OutputVariance, IsTheErrorOfAttentionWithDraws) {
  constexpr std::size_t kFeatures = 256, kKeys = 9, kRuns = 200;
  for (std::uint32_t number = 0; number < 3; ++number) {
    const RandomSetting s(number);
    const Matrix k =
        gaussian_rows(kKeys, s.moments.key_mean, s.moments.key_covariance, {23, number});
    const Matrix v = normal_matrix(kKeys, 3, {29, number});
    for (const FeatureFamily& family : s.families) {
      if (family.trigonometric) {
        continue;
      }
      const double predicted = std::exp(log_output_variance(family, s.q.row(0), k, v)) / kFeatures;
      Vector errors;
      for (std::uint32_t run = 0; run < kRuns; ++run) {
        errors.push_back(squared_error(family, draw(family, kFeatures, 31, run), s.q, k, v));
      }
      const Measured measured = measure(errors);
      // First order in 1/F: the next term is a few times 1/F of it.
      const double room = 0.03 * predicted;
      EXPECT_GT(measured.high() + room, predicted) << family.name << " in setting " << number;
      EXPECT_LT(measured.low() - room, predicted) << family.name << " in setting " << number;
    }
  }
}

TEST(OutputVariance, VanishesWhereAllValuesAgree) {
  const RandomSetting s(2);
  const Matrix k = gaussian_rows(5, s.moments.key_mean, s.moments.key_covariance, {7});
  const Matrix same(5, 2, 1.5);
  EXPECT_LT(std::exp(log_output_variance(s.families[0], s.q.row(0), k, same)), 1e-20);
}

// Inputs as pretrained models have them: E x^2 is far beyond any number of features.
struct LargeSetting {
  explicit LargeSetting(double size) {
    const std::size_t D = 8;
    const Matrix covariance = covariance_with(
        geometric_spectrum(D, size * size / static_cast<double>(D), 4.0), random_rotation(D, {41}));
    moments = zero_mean_moments(covariance);
    q = gaussian_rows(1, moments.query_mean, covariance, {43});
    k = gaussian_rows(12, moments.key_mean, covariance, {47});
    v = normal_matrix(12, 3, {53});
  }
  InputMoments moments;
  Matrix q, k, v;
};

TEST(TypicalEstimate, BoundsTheMeanLogarithmAndIsNearIt) {
  constexpr std::size_t kFeatures = 32, kRuns = 1000;
  for (const double size : {0.7, 2.0, 4.0}) {
    const LargeSetting s(size);
    for (const EstimatorKind kind :
         {EstimatorKind::kPerformer, EstimatorKind::kOprf, EstimatorKind::kSderf}) {
      const FeatureFamily family = fit_family(kind, s.moments);
      const TypicalEstimate typical = typical_estimate(family, kFeatures, s.q.row(0), s.k.row(0));
      Vector logs;
      for (std::uint32_t run = 0; run < kRuns; ++run) {
        logs.push_back(std::log(
            relative_estimate(family, draw(family, kFeatures, 59, run), s.q.row(0), s.k.row(0))));
      }
      const Measured measured = measure(logs);
      EXPECT_GT(typical.log_estimate, measured.low()) << family.name << ", size " << size;
      // A bound to leading order in log F: it is off by terms like log log F.
      EXPECT_LT(typical.log_estimate, 1.0 + 0.4 * measured.mean)
          << family.name << ", size " << size;
    }
  }
}

TEST(TypicalEstimate, OfPerformerIsKnown) {
  const LargeSetting s(4.0);
  const FeatureFamily family = fit_family(EstimatorKind::kPerformer, s.moments);
  const double size = std::sqrt(squared_norm(add(s.q.row(0), s.k.row(0))));
  const double root = std::sqrt(2.0 * std::log(32.0));
  ASSERT_GT(size, root);
  const double known = -0.5 * (size - root) * (size - root);
  const double found = typical_estimate(family, 32.0, s.q.row(0), s.k.row(0)).log_estimate;
  EXPECT_GE(found, known - 1e-12);  // the grid of betas misses the least value by a little
  EXPECT_LT(found, known + 0.1);
  // Enough features, and nothing is lost.
  EXPECT_EQ(typical_estimate(family, 1e30, s.q.row(0), s.k.row(0)).log_estimate, 0.0);
}

TEST(PredictedError, FollowsTheMeasuredOneFromSmallToHopeless) {
  constexpr std::size_t kFeatures = 64, kRuns = 200;
  double before = 0.0;
  for (const double size : {0.4, 0.8, 1.6, 3.0}) {
    const LargeSetting s(size);
    const FeatureFamily family = fit_family(EstimatorKind::kPerformer, s.moments);
    double measured = 0.0;
    for (std::uint32_t run = 0; run < kRuns; ++run) {
      measured += squared_error(family, draw(family, kFeatures, 61, run), s.q, s.k, s.v) / kRuns;
    }
    const double predicted = predicted_error2(family, kFeatures, s.q.row(0), s.k, s.v);
    EXPECT_GT(predicted, measured / 4.0) << size;
    EXPECT_LT(predicted, measured * 4.0) << size;
    EXPECT_GT(predicted, before) << size;
    before = predicted;
  }
}

}  // namespace
}  // namespace darkformer::estimators::output_variance_test
