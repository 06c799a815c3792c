// The optimal proposal against others, in closed form: Lemma 3.1, Theorem 3.2 and their limits.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "darkformer/commands/variance_parts.h"
#include "darkformer/estimators/fit_family.h"
#include "darkformer/estimators/gaussian_theory.h"
#include "darkformer/estimators/prediction.h"
#include "darkformer/estimators/random_inputs.h"

namespace darkformer {
namespace {

using namespace estimators;

constexpr std::size_t kOptimalDim = 8;

Matrix covariance_of(const FeatureFamily& family) {
  return matrix_function(family.proposal, [](double s) { return s; });
}

// log V(psi) - log V(psi*) for psi = N(0, P).
double loss(const InputMoments& m, const Matrix& p) {
  return log_objective(m, {Vector(m.dim(), 0.0), p}) - log_least_objective(m);
}

void add_proposals(VarianceRun& run, report::Section& section) {
  const std::vector<std::string> names = {"N(0, I): performer", "oprf", "sderf", "halfway to ψ*",
                                          "ψ*: importance"};
  report::LineChart chart{"How much more variance than the optimum: log V(ψ) − log V(ψ*)",
                          "Isotropic Gaussian inputs, D = 8, closed form. N(0, I) has infinite "
                          "variance from λ = 1/6 on; "
                          "ψ* exists below λ = 1/2.",
                          {"λ, variance of an input's entry", true},
                          {"log V(ψ) − log V(ψ*)"},
                          {}};
  for (const std::string& name : names) {
    chart.series.push_back({name, {}, {}});
  }
  double least = std::numeric_limits<double>::infinity();
  for (double lambda = 0.002; lambda < 0.499; lambda *= 1.12) {
    const InputMoments m = zero_mean_moments(scale(Matrix::identity(kOptimalDim), lambda));
    const Matrix best = optimal_covariance(m.query_covariance);
    const std::vector<Matrix> proposals = {
        Matrix::identity(kOptimalDim), covariance_of(fit_family(EstimatorKind::kOprf, m)),
        covariance_of(fit_family(EstimatorKind::kSderf, m)),
        scale(add(best, Matrix::identity(kOptimalDim)), 0.5), best};
    for (std::size_t i = 0; i < proposals.size(); ++i) {
      const double value = loss(m, proposals[i]);
      chart.series[i].x.push_back(lambda), chart.series[i].y.push_back(value);
      if (i + 1 < proposals.size()) {
        least = std::min(least, value);
      }
    }
  }
  section.figures.push_back(figure(chart));
  run.state("Lemma 3.1", least > 0.0, "No proposal of the family has less variance than ψ*.",
            concat("smallest log V(ψ) − log V(ψ*): ", digits(least)));
  run.caveat(
      "Theorem 3.2, item 2 (strictly less than isotropic draws)",
      "True for every covariance but zero. Beyond an eigenvalue of 1/6 the comparison is with "
      "an infinite variance, and from 1/2 on ψ* itself does not exist: importance then "
      "refuses or clips, where oprf and sderf always exist.",
      "finite below λ = 1/6, defined below λ = 1/2");
}

void add_anisotropy(VarianceRun& run, report::Section& section) {
  report::HeatMap map{"log V(p_I) − log V(ψ*): what isotropic draws lose",
                      "Rows: mean eigenvalue of Λ. Columns: largest over smallest eigenvalue. D = "
                      "8; – is infinite.",
                      "mean λ \\ condition",
                      {},
                      {},
                      {}};
  report::Series spectrum{"condition of Σ*", {}, {}};
  const Matrix rotation = random_rotation(kOptimalDim, {run.seed, 20});
  for (const double condition : {1.0, 2.0, 5.0, 10.0, 100.0}) {
    map.columns.push_back(digits(condition));
  }
  bool isotropic = true;
  for (const double mean : {0.005, 0.01, 0.02, 0.04, 0.08, 0.12}) {
    map.rows.push_back(digits(mean));
    map.values.emplace_back();
    for (const double condition : {1.0, 2.0, 5.0, 10.0, 100.0}) {
      const Matrix lambda =
          covariance_with(geometric_spectrum(kOptimalDim, mean, condition), rotation);
      map.values.back().push_back(loss(zero_mean_moments(lambda), Matrix::identity(kOptimalDim)));
      const Spectrum best = symmetric_spectrum(optimal_covariance(lambda));
      const double got = best.values.back() / best.values.front();
      isotropic = isotropic && (condition == 1.0) == (got < 1.0 + 1e-9);
      if (mean == 0.08) {
        spectrum.x.push_back(condition), spectrum.y.push_back(got);
      }
    }
  }
  section.figures.push_back(figure(map));
  section.figures.push_back(figure(report::LineChart{"Anisotropy of the optimal proposal",
                                                     "Mean eigenvalue 0.08, D = 8.",
                                                     {"condition of Λ", true},
                                                     {"condition of Σ*", true},
                                                     {spectrum}}));
  run.state("Theorem 3.2, item 1 (Σ* isotropic if and only if Λ is)", isotropic,
            "Over 30 covariances the condition of Σ* is 1 exactly where that of Λ is.",
            concat("at condition ", digits(spectrum.x.back()), ": ", digits(spectrum.y.back())));
}

void add_weighted(VarianceRun& run, report::Section& section) {
  report::Series weighted{"weighted isotropic draws", {}, {}},
      dark{"dark: draws of N(0, Σ)", {}, {}};
  const InputMoments m = zero_mean_moments(Matrix::identity(kOptimalDim));
  const Vector q(kOptimalDim, 0.1);
  for (double sigma = 0.2; sigma < 2.6; sigma += 0.05) {
    FitOptions options;
    options.factor = scale(Matrix::identity(kOptimalDim), std::sqrt(sigma));
    weighted.x.push_back(sigma), dark.x.push_back(sigma);
    weighted.y.push_back(log_second_moment(fit_family(EstimatorKind::kWeighted, m, options), q, q));
    dark.y.push_back(log_second_moment(fit_family(EstimatorKind::kDark, m, options), q, q));
  }
  section.figures.push_back(figure(report::LineChart{
      "Proposition 4.1: equal in expectation, not in variance",
      "log E[κ̂²]/κ² of one draw, q = k, |q|² = 0.08, D = 8, Σ = σI. Infinite from σ = 2 on.",
      {"σ"},
      {"log second moment"},
      {weighted, dark}}));
  const double gap = weighted.y[26] - dark.y[26];
  run.caveat(
      "Proposition 4.1 (dark is importance sampling)",
      "The expectations are equal and that is all it says: the weighted form is the noisier one "
      "for every σ but 1 and has infinite variance from σ = 2 on. Dark's estimator has variance "
      "exp(|M(q+k)|²) − 1 for its own kernel exp(qᵀΣk); it is no estimator of exp(q·k) with less.",
      concat("log second moments at σ = ", digits(dark.x[26]), ": ", digits(weighted.y[26]),
             " against ", digits(weighted.y[26] - gap)));
}

void add_whitening(VarianceRun& run, report::Section& section) {
  const Matrix lambda = covariance_with(geometric_spectrum(kOptimalDim, 0.2, 20.0),
                                        random_rotation(kOptimalDim, {run.seed, 21}));
  const InputMoments m = zero_mean_moments(lambda);
  const double performer = expected_log_second_moment(fit_family(EstimatorKind::kPerformer, m), m);
  report::Series dark{"dark, M = sΛ^−½", {}, {}}, plain{"performer, M = I", {}, {}, {}, {}, true};
  for (double s = 0.05; s < 1.3; s *= 1.15) {
    FitOptions options;
    options.factor = whitening(symmetric_spectrum(lambda), kOptimalDim, 1e-12, s);
    dark.x.push_back(s), plain.x.push_back(s), plain.y.push_back(performer);
    dark.y.push_back(expected_log_second_moment(fit_family(EstimatorKind::kDark, m, options), m));
  }
  section.figures.push_back(figure(report::LineChart{
      "Whitening has a scale",
      "Mean over pairs of log E[κ̂²]/κ²; mean eigenvalue 0.2, condition 20, D = 8.",
      {"s", true},
      {"mean log second moment", true},
      {dark, plain}}));
  run.caveat(
      "Section 4, whitening with Σ = Λ⁻¹",
      "Inputs become isotropic (Appendix C, checked to rounding), but with unit variance: the mean "
      "log second moment is then 2D whatever the inputs were. Whitening helps the variance only "
      "with a scale, which also flattens the kernel.",
      concat("2D = ", 2 * kOptimalDim, " against performer's ", digits(performer)));
}

}  // namespace

void add_optimality(VarianceRun& run) {
  report::Section section{
      "The optimal proposal",
      {"Lemma 3.1 and Theorem 3.2 for Gaussian inputs. V(ψ) is the mean over pairs "
       "of the squared estimate, so it is ruled by the pairs with the largest "
       "kernels: the optimum for V is not the optimum for attention (below)."},
      {}};
  add_proposals(run, section);
  run.tick(), run.tick();
  add_anisotropy(run, section);
  run.tick(), run.tick();
  add_weighted(run, section);
  run.tick(), run.tick();
  add_whitening(run, section);
  run.tick(), run.tick();
  run.results.sections.push_back(section);
}

}  // namespace darkformer
