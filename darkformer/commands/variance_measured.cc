// Predicted against measured variance; positive against trigonometric features; orthogonal draws.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "darkformer/base/philox.h"
#include "darkformer/commands/variance_parts.h"
#include "darkformer/estimators/confidence.h"
#include "darkformer/estimators/fit_family.h"
#include "darkformer/estimators/prediction.h"
#include "darkformer/estimators/random_inputs.h"

namespace darkformer {
namespace {

using namespace estimators;

constexpr std::size_t kSettings = 60, kDraws = 40000;

// Random covariances and one pair of inputs, small enough for four moments.
struct Setting {
  Setting(std::uint64_t seed, std::uint32_t number) {
    const Philox random(seed, 3000 + number);
    D = std::size_t{1} << random.below(0, 5);  // 1 .. 16
    size = 0.02 + 0.1 * random.uniform(2), condition = std::pow(30.0, random.uniform(4));
    const Matrix covariance =
        covariance_with(geometric_spectrum(D, size / static_cast<double>(D), condition),
                        random_rotation(D, {seed, 3000 + number, 1}));
    moments = zero_mean_moments(covariance);
    x = gaussian_rows(2, moments.query_mean, covariance, {seed, 3000 + number, 2});
    // Outliers would have no interval: bring |q + k|^2 down to 0.3.
    const double sum = squared_norm(add(x.row(0), x.row(1)));
    x = sum > 0.3 ? scale(x, std::sqrt(0.3 / sum)) : x;
    factor = covariance_with(geometric_spectrum(D, 0.97, 1.1),
                             random_rotation(D, {seed, 3000 + number, 3}));
  }
  std::size_t D;
  double size, condition;
  InputMoments moments;
  Matrix x, factor;
};

Measured second_moment(const FeatureFamily& family, const Setting& s, const Matrix& white) {
  Vector squares = relative_terms(family, propose(family, white), s.x.row(0), s.x.row(1));
  std::transform(squares.begin(), squares.end(), squares.begin(), [](double x) { return x * x; });
  const double m2 = std::exp(log_moment(family, 2, s.x.row(0), s.x.row(1)));
  const double m4 = std::exp(log_moment(family, 4, s.x.row(0), s.x.row(1)));
  return measure_known(squares, std::sqrt(std::max(m4 - m2 * m2, 0.0)) + 1e-6);
}

struct Tally {
  int inside = 0, all = 0;
  double worst = 0.0;
  report::Series points;
};

void add_prediction(VarianceRun& run, report::Section& section) {
  std::map<std::string, Tally> tallies;
  for (std::uint32_t number = 0; number < kSettings; ++number) {
    const Setting setting(run.seed, number);
    const Matrix white = white_draws(kDraws, setting.D, false, run.seed, 4000 + number);
    for (std::size_t kind = 0; kind < kEstimatorKinds; ++kind) {
      FitOptions options;
      options.factor = setting.factor;
      const auto family = fit_family(static_cast<EstimatorKind>(kind), setting.moments, options);
      const Measured m = second_moment(family, setting, white);
      const double predicted =
          std::exp(log_second_moment(family, setting.x.row(0), setting.x.row(1)));
      Tally& tally = tallies[family.name];
      tally.inside += m.covers(predicted) ? 1 : 0;
      ++tally.all;
      tally.worst = std::max(tally.worst, std::abs(m.mean - predicted) / m.error);
      tally.points.name = family.name;
      tally.points.x.push_back(predicted - 1.0), tally.points.y.push_back(m.mean - 1.0);
    }
    if (number % 15 == 14) {
      run.tick();
    }
  }
  report::Table table{"Measured second moment within 7.5 standard errors of the predicted one",
                      concat(kSettings,
                             " random settings: D from 1 to 16, condition 1 to 30, scale 0.02 "
                             "to 0.12; ",
                             kDraws, " independent draws each."),
                      {"estimator", "inside", "of", "worst, standard errors"},
                      {}};
  report::LineChart chart{"Measured against predicted variance of one draw",
                          "Over the squared kernel.",
                          {"predicted", true},
                          {"measured", true},
                          {}};
  int inside = 0, all = 0;
  double worst = 0.0;
  for (const auto& [name, tally] : tallies) {
    table.rows.push_back({name, tally.inside, tally.all, tally.worst});
    chart.series.push_back(tally.points);
    inside += tally.inside, all += tally.all, worst = std::max(worst, tally.worst);
  }
  section.figures.push_back(figure(table));
  section.figures.push_back(figure(chart));
  run.state(
      "Closed-form variance", inside == all,
      "Measured variances agree with the closed form for every estimator with independent draws.",
      concat(inside, " of ", all, " inside; worst ", digits(worst), " standard errors"));
}

void add_trigonometric(VarianceRun& run, report::Section& section) {
  FeatureFamily positive = plain_family("positive", 4),
                trigonometric = plain_family("trigonometric", 4);
  trigonometric.trigonometric = true;
  const Matrix white = white_draws(kDraws, 4, false, run.seed, 5000);
  report::LineChart chart{
      "Positive against trigonometric features: relative standard deviation of one draw",
      "|q| = |k| = 0.8, the angle between them from 180° to 0°; dashed: measured.",
      {"kernel exp(q·k)", true},
      {"standard deviation / kernel", true},
      {}};
  for (const FeatureFamily& family : {positive, trigonometric}) {
    report::Series predicted{family.name, {}, {}}, measured{family.name + ", measured", {}, {}};
    measured.dashed = true;
    for (int degrees = 176; degrees >= 4; degrees -= 8) {
      const double angle = degrees * M_PI / 180.0;
      const Vector q = {0.8, 0.0, 0.0, 0.0},
                   k = {0.8 * std::cos(angle), 0.8 * std::sin(angle), 0.0, 0.0};
      const double kernel = std::exp(dot(q, k));
      predicted.x.push_back(kernel), measured.x.push_back(kernel);
      predicted.y.push_back(std::sqrt(relative_variance(log_second_moment(family, q, k), 1)));
      const Measured m = measure(relative_terms(family, propose(family, white), q, k));
      measured.y.push_back(m.error * std::sqrt(static_cast<double>(kDraws)));
    }
    chart.series.push_back(predicted), chart.series.push_back(measured);
  }
  const double ratio = chart.series[2].y.front() / chart.series[0].y.front();
  const double other = chart.series[0].y.back() / chart.series[2].y.back();
  section.figures.push_back(figure(chart));
  run.caveat("Section 2 (positive features are better where the kernel is small)",
             "They are, and worse where it is large: E[κ̂²]/κ² is exp(|q+k|²) for positive "
             "and cosh(|q−k|²) for trigonometric features.",
             concat(digits(ratio), " times smaller deviation at the smallest kernel, ",
                    digits(other), " times larger at the largest"));
}

void add_orthogonal(VarianceRun& run, report::Section& section) {
  constexpr std::size_t kSize = 8, kBlocks = 20000;
  FeatureFamily family = plain_family("orthogonal", kSize);
  family.orthogonal = true;
  const FeatureDraws draws = draw(family, kBlocks * kSize, run.seed, 5001);
  report::Series ratio{"orthogonal / independent", {}, {}, {}, {}};
  for (const double size : {0.25, 0.5, 0.75, 1.0, 1.25, 1.5}) {
    Vector q(kSize, std::sqrt(size / kSize) / 2.0);
    const double variance = std::expm1(log_second_moment(family, q, q));
    Vector squares;
    for (const double mean : block_means(relative_terms(family, draws, q, q), kSize)) {
      squares.push_back((mean - 1.0) * (mean - 1.0) * kSize / variance);
    }
    const Measured m = measure(squares);
    ratio.x.push_back(size), ratio.y.push_back(m.mean);
    ratio.low.push_back(m.low()), ratio.high.push_back(m.high());
  }
  section.figures.push_back(
      figure(report::LineChart{"Variance of 8 orthogonal draws over that of 8 independent ones",
                               "D = 8, 20000 blocks, bands of 7.5 standard errors. The closed "
                               "forms are for independent draws.",
                               {"|q + k|²"},
                               {"variance ratio"},
                               {ratio}}));
  run.caveat(
      "Section 2 (orthogonal draws reduce the variance)",
      "They do, by a share that grows with |q+k|² and shrinks where it is small; no closed form "
      "here covers them.",
      concat("ratio ", digits(ratio.y.front()), " at |q+k|² = 0.25, ", digits(ratio.y.back()),
             " at 1.5"));
}

}  // namespace

void add_measured_variance(VarianceRun& run) {
  report::Section section{
      "Predicted and measured",
      {"The closed form log E[κ̂²]/κ² = Σ log s − ½ log(2s − 1) + z²/(2s − 1) over the "
       "axes of the proposal, against many draws."},
      {}};
  add_prediction(run, section);
  add_trigonometric(run, section);
  run.tick(), run.tick();
  add_orthogonal(run, section);
  run.tick(), run.tick();
  run.results.sections.push_back(section);
}

}  // namespace darkformer
