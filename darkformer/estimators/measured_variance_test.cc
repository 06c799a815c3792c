// Measured against predicted: mean, second moment and effective sample size of every estimator,
// over random settings.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "darkformer/estimators/confidence.h"
#include "darkformer/estimators/prediction.h"
#include "darkformer/estimators/random_settings_testing.h"

namespace darkformer::estimators::measured_variance_test {
namespace {

constexpr std::uint32_t kSettings = 60;
constexpr std::size_t kDraws = 40000;

// Of the mean of kDraws values x^2, from the moments of x: the normal interval holds where it is
// small (confidence.h).
double skewness(const FeatureFamily& family, const RandomSetting& s) {
  const auto moment = [&](int n) {
    return std::exp(log_moment(family, n, s.q.row(0), s.k.row(0)));
  };
  const double m2 = moment(2), m4 = moment(4), m6 = moment(6);
  const double variance = m4 - m2 * m2, third = m6 - 3.0 * m4 * m2 + 2.0 * m2 * m2 * m2;
  return third / std::pow(variance, 1.5) / std::sqrt(static_cast<double>(kDraws));
}

// The first kSettings random settings in which no estimator is too skew.
std::vector<std::uint32_t> fair_settings() {
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t number = 0; numbers.size() < kSettings; ++number) {
    const RandomSetting setting(number);
    const bool fair = std::ranges::all_of(setting.families, [&](const FeatureFamily& family) {
      return family.trigonometric || skewness(family, setting) < kMostSkewness;
    });
    if (fair) {
      numbers.push_back(number);
    }
  }
  return numbers;
}

struct Case {
  Measured mean, second;       // of x and x^2
  double predicted, variance;  // E x^2, and of x^2
  double sample_size;
};

Case measure_family(const FeatureFamily& family, const RandomSetting& s, const Matrix& white) {
  const auto q = s.q.row(0), k = s.k.row(0);
  const Vector terms = relative_terms(family, propose(family, white), q, k);
  Vector squares(terms.size());
  std::ranges::transform(terms, squares.begin(), [](double x) { return x * x; });
  const double m2 = std::exp(log_moment(family, 2, q, k)),
               m4 = std::exp(log_moment(family, 4, q, k));
  const double variance = std::max(m4 - m2 * m2, 0.0);
  // A pair with q + k = 0 has no variance: leave room for rounding (draws are float).
  const double least = 1e-6;
  return {measure_known(terms, std::sqrt(std::max(m2 - 1.0, 0.0)) + least),
          measure_known(squares, std::sqrt(variance) + least), m2, variance,
          effective_sample_size(terms)};
}

TEST(MeasuredVariance, LiesInTheIntervalOfThePredictedOneOverRandomSettings) {
  std::size_t checks = 0;
  for (const std::uint32_t number : fair_settings()) {
    const RandomSetting setting(number);
    const Matrix white = white_draws(kDraws, setting.moments.dim(), false, 23, number);
    for (const FeatureFamily& family : setting.families) {
      const Case c = measure_family(family, setting, white);
      EXPECT_TRUE(c.mean.covers(1.0)) << family.name << " " << number << ": " << c.mean.mean;
      EXPECT_TRUE(c.second.covers(c.predicted))
          << family.name << " " << number << ": " << c.second.mean << " against " << c.predicted;
      const double predicted = predicted_sample_size(std::log(c.predicted), kDraws);
      EXPECT_NEAR(c.sample_size / predicted, 1.0, 0.2);
      ++checks;
    }
  }
  EXPECT_EQ(checks, kSettings * kEstimatorKinds * 2);
}

// The closed form with one thing wrong at a time: each must be seen.
TEST(MeasuredVariance, PerturbedFormulasFallOutside) {
  std::size_t no_det = 0, half_quadratic = 0, other_axes = 0, settings = 0;
  for (const std::uint32_t number : fair_settings()) {
    const RandomSetting setting(number);
    const auto q = setting.q.row(0), k = setting.k.row(0);
    const FeatureFamily family = fit_family(EstimatorKind::kSderf, setting.moments, {});
    const Matrix white = white_draws(kDraws, setting.moments.dim(), false, 23, number);
    const Case c = measure_family(family, setting, white);
    double constant = 0.0;
    for (const double s : family.proposal.values) {
      constant += std::log(s) - 0.5 * std::log(2.0 * s - 1.0);
    }
    const double log_second = std::log(c.predicted);
    no_det += c.second.covers(std::exp(log_second - constant)) ? 0 : 1;
    half_quadratic += c.second.covers(std::exp(constant + 0.5 * (log_second - constant))) ? 0 : 1;
    FeatureFamily isotropic = plain_family("performer", setting.moments.dim());
    other_axes += c.second.covers(std::exp(log_second_moment(isotropic, q, k))) ? 0 : 1;
    ++settings;
  }
  EXPECT_GT(no_det, 0U);
  EXPECT_GT(half_quadratic, settings / 4);
  EXPECT_GT(other_axes, settings / 8);
}

TEST(Prediction, FeaturesNeededGiveTheErrorAskedFor) {
  const FeatureFamily family = plain_family("performer", 2);
  const Vector q = {0.4, 0.1}, k = {0.3, 0.2};
  const double log_second = log_second_moment(family, q, k);
  EXPECT_NEAR(log_second, 0.7 * 0.7 + 0.3 * 0.3, 1e-14);
  const double needed = features_needed(log_second, 0.1);
  EXPECT_NEAR(relative_variance(log_second, 1) / needed, 0.01, 1e-12);
  // Measured over many estimates of that many features.
  const auto F = static_cast<std::size_t>(std::ceil(needed));
  const Vector terms = relative_terms(family, draw(family, 2000 * F, 3), q, k);
  const Vector estimates = block_means(terms, F);
  const double deviation = measure(estimates).error * std::sqrt(2000.0);
  EXPECT_NEAR(deviation, 0.1, 0.02);
}

TEST(Prediction, ExpectedLogSecondMomentIsTheMeanOverPairs) {
  const RandomSetting setting(3);
  constexpr std::size_t kPairs = 20000;
  const InputMoments& m = setting.moments;
  const Matrix q = gaussian_rows(kPairs, m.query_mean, m.query_covariance, {29, 1});
  const Matrix k = gaussian_rows(kPairs, m.key_mean, m.key_covariance, {29, 2});
  for (const FeatureFamily& family : setting.families) {
    if (family.trigonometric) {
      continue;
    }
    Vector values(kPairs);
    for (std::size_t i = 0; i < kPairs; ++i) {
      values[i] = log_second_moment(family, q.row(i), k.row(i));
    }
    EXPECT_TRUE(measure(values).covers(expected_log_second_moment(family, m))) << family.name;
  }
}

}  // namespace
}  // namespace darkformer::estimators::measured_variance_test
