// The predicted error of attention's output against attention with drawn features.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/estimators/output_variance.h"

#include <algorithm>

#include "darkformer/estimators/confidence.h"
#include "darkformer/estimators/prediction.h"
#include "darkformer/estimators/random_settings_testing.h"

namespace darkformer::estimators {
namespace {

constexpr std::uint32_t kSettings = 30;

TEST(CrossMoment, IsTheMeanOfTheProduct) {
  for (std::uint32_t number = 0; number < kSettings; ++number) {
    const RandomSetting s(number);
    const Matrix other = gaussian_rows(1, s.moments.key_mean, s.moments.key_covariance, {3, number});
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
          << family.name << " in setting " << number << ": " << measure(products).mean << " against "
          << predicted;
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
  const Matrix off = add(attention_estimate(family, draws, q, k), exact_attention_of(family, q, k),
                         -1.0);
  return squared_norm(multiply(transpose(v), off.row(0)));
}

TEST(OutputVariance, IsTheErrorOfAttentionWithDraws) {
  constexpr std::size_t kFeatures = 256, kKeys = 9, kRuns = 400;
  for (std::uint32_t number = 0; number < 6; ++number) {
    const RandomSetting s(number);
    const Matrix k =
        gaussian_rows(kKeys, s.moments.key_mean, s.moments.key_covariance, {23, number});
    const Matrix v = normal_matrix(kKeys, 3, {29, number});
    for (const FeatureFamily& family : s.families) {
      if (family.trigonometric) {
        continue;
      }
      const double predicted =
          std::exp(log_output_variance(family, s.q.row(0), k, v)) / kFeatures;
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

TEST(BoundedError, IsTheSmallerOfErrorAndIgnorance) {
  EXPECT_NEAR(bounded_error2(std::log(2.0), 1000.0, 5.0), 0.002, 1e-6);
  EXPECT_NEAR(bounded_error2(800.0, 32.0, 5.0), 5.0, 1e-12);
  EXPECT_EQ(bounded_error2(1.0, 32.0, 0.0), 0.0);
  EXPECT_EQ(bounded_error2(-std::numeric_limits<double>::infinity(), 32.0, 1.0), 0.0);
  EXPECT_EQ(bounded_error2(std::numeric_limits<double>::infinity(), 32.0, 1.0), 1.0);
}

}  // namespace
}  // namespace darkformer::estimators
