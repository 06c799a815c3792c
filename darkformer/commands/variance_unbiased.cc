// Is every estimator unbiased? Means of many draws, with intervals.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "darkformer/commands/variance_parts.h"
#include "darkformer/estimators/confidence.h"
#include "darkformer/estimators/fit_family.h"
#include "darkformer/estimators/householder_draws.h"
#include "darkformer/estimators/prediction.h"
#include "darkformer/estimators/random_inputs.h"

namespace darkformer {
namespace {

using namespace estimators;

constexpr std::size_t kUnbiasedDim = 8, kPairs = 12, kUnbiasedDraws = 40000;

struct Bias {
  std::string name;
  double mean = 0.0;   // over pairs
  double worst = 0.0;  // deviation from 1, in standard errors
  double error = 0.0;  // standard error of the mean over pairs, as if pairs were independent
};

Bias measure_bias(const FeatureFamily& family,
                  const Matrix& q,
                  const Matrix& k,
                  std::uint64_t seed) {
  Bias bias{family.name + (family.orthogonal ? ", orthogonal" : "")};
  for (std::size_t i = 0; i < kPairs; ++i) {
    const FeatureDraws draws =
        draw(family, kUnbiasedDraws, seed, static_cast<std::uint32_t>(1000 + i));
    const Vector terms = relative_terms(family, draws, q.row(i), k.row(i));
    const Measured m =
        measure(block_means(terms, kUnbiasedDim));  // a block of orthogonal draws is one
    bias.mean += m.mean / kPairs;
    bias.error += m.error / kPairs;
    bias.worst = std::max(bias.worst, std::abs(m.mean - 1.0) / m.error);
  }
  return bias;
}

std::vector<FeatureFamily> families_of(const InputMoments& moments, std::uint64_t seed) {
  std::vector<FeatureFamily> families;
  FitOptions options;
  options.factor = covariance_with(geometric_spectrum(kUnbiasedDim, 0.97, 1.1),
                                   random_rotation(kUnbiasedDim, {seed, 3}));
  for (std::size_t kind = 0; kind < kEstimatorKinds; ++kind) {
    for (const bool centre : {false, true}) {
      options.centre = centre;
      families.push_back(fit_family(static_cast<EstimatorKind>(kind), moments, options));
    }
  }
  families.push_back(families.front());
  families.back().orthogonal = true;
  return families;
}

// The mean estimate for q = k = 0.7 e_1 by the QR of a library, block after block.
Measured qr_mean(std::size_t D, bool fixed, std::uint64_t seed) {
  const std::size_t blocks = std::min<std::size_t>(20000, 2000000 / (D * D));
  const FeatureFamily family = plain_family("performer", D);
  Vector q(D, 0.0);
  q[0] = 0.7;
  const FeatureDraws draws = propose(
      family,
      householder_draws(blocks * D, D, fixed, {seed, static_cast<std::uint32_t>(2000 + D)}));
  return measure(block_means(relative_terms(family, draws, q, q), D));
}

void add_sign_fix(VarianceRun& run, report::Section& section) {
  report::LineChart chart{
      "Orthogonal draws from a library's QR: mean estimate over the kernel",
      "q = k = 0.7 along the first axis; bands: 7.5 standard errors. 1 is unbiased.",
      {"head size D", true},
      {"mean estimate / kernel"},
      {}};
  double worst = 0.0, at_64 = 0.0;
  for (const bool fixed : {true, false}) {
    report::Series series{fixed ? "with the sign fix" : "without", {}, {}, {}, {}};
    for (const std::size_t D : {2U, 4U, 8U, 16U, 32U, 64U}) {
      const Measured m = qr_mean(D, fixed, run.seed);
      series.x.push_back(static_cast<double>(D));
      series.y.push_back(m.mean), series.low.push_back(m.low()), series.high.push_back(m.high());
      if (!fixed) {
        worst = std::max(worst, std::abs(m.mean - 1.0));
        at_64 = std::abs(m.mean - 1.0);
      }
    }
    chart.series.push_back(series);
    run.tick();
  }
  section.figures.push_back(figure(chart));
  run.caveat(
      "Section 2, orthogonal draws",
      "Gram-Schmidt draws are unbiased; a library's QR is so only after its signs are fixed. "
      "The bias without the fix shrinks with the head size.",
      concat("bias up to ", digits(100.0 * worst), " %, ", digits(100.0 * at_64), " % at D = 64"));
}

}  // namespace

void add_unbiasedness(VarianceRun& run) {
  const Matrix means = scale(normal_matrix(2, kUnbiasedDim, {run.seed, 1}), 0.1);
  const auto covariance = [&](std::uint32_t index) {
    return covariance_with(geometric_spectrum(kUnbiasedDim, 0.02, 10.0),
                           random_rotation(kUnbiasedDim, {run.seed, 2, index}));
  };
  const InputMoments moments = {Vector(means.row(0).begin(), means.row(0).end()),
                                Vector(means.row(1).begin(), means.row(1).end()), covariance(0),
                                covariance(1)};
  const Matrix q = gaussian_rows(kPairs, moments.query_mean, moments.query_covariance,
                                 {run.seed, 4}),
               k = gaussian_rows(kPairs, moments.key_mean, moments.key_covariance, {run.seed, 5});
  report::Table table{
      "Mean estimate over the kernel",
      concat(kPairs, " pairs of inputs of size ", kUnbiasedDim, ", ", kUnbiasedDraws,
             " draws each; unbiased estimators stay within 7.5 standard errors."),
      {"estimator", "mean", "standard error", "worst pair, standard errors"},
      {}};
  double worst = 0.0;
  const std::vector<FeatureFamily> families = families_of(moments, run.seed);
  for (std::size_t i = 0; i < families.size(); ++i) {
    const Bias bias = measure_bias(families[i], q, k, run.seed);
    table.rows.push_back({bias.name, bias.mean, bias.error, bias.worst});
    worst = std::max(worst, bias.worst);
    if (i % 3 == 2) {
      run.tick();
    }
  }
  report::Section section{"Unbiased?",
                          {"Each estimator's mean over many draws against the kernel it is meant "
                           "for: exp(q·k), and exp(qᵀΣk) for dark and weighted (Lemma 2.1, "
                           "Equation 4, Proposition 4.1). Centred variants estimate the kernel up "
                           "to a factor of the query, which attention divides out."},
                          {figure(table)}};
  run.state(
      "Lemma 2.1, Equation 4, Proposition 4.1", worst < kDeviations,
      "All estimators, centred or not, are unbiased.",
      concat("worst of ", families.size() * kPairs, " means: ", digits(worst), " standard errors"));
  add_sign_fix(run, section);
  run.tick();
  run.results.sections.push_back(section);
}

}  // namespace darkformer
