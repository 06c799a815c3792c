// Every lemma, theorem and proposition of the paper, and of its appendices, as a test of its own.
// Statistical ones have a fixed seed and intervals of kDeviations standard errors; each test also
// shows that a perturbed formula fails it.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "darkformer/estimators/confidence.h"
#include "darkformer/estimators/fit_family.h"
#include "darkformer/estimators/gaussian_theory.h"
#include "darkformer/estimators/prediction.h"
#include "darkformer/estimators/random_inputs.h"

namespace darkformer::estimators::paper_statements_test {
namespace {

constexpr std::size_t kDraws = 100000;

// Inputs of size D with |q|^2 and |k|^2 around `size`.
Matrix inputs(std::size_t D, double size, std::uint32_t stream) {
  const Matrix covariance = scale(Matrix::identity(D), size / static_cast<double>(D));
  return gaussian_rows(2, Vector(D, 0.0), covariance, {11, stream});
}

// The mean of kDraws terms of one draw each, with the standard error that theory gives them.
Measured measured_mean(const FeatureFamily& family,
                       std::span<const double> q,
                       std::span<const double> k,
                       std::uint32_t stream) {
  const FeatureDraws draws = draw(family, kDraws, 5, stream);
  const double deviation = std::sqrt(std::expm1(log_second_moment(family, q, k)));
  return measure_known(relative_terms(family, draws, q, k), deviation);
}

// The integral of f over the real line, for analytic f that has vanished at +-20: the trapezium
// rule converges geometrically.
double integral(const std::function<double(double)>& f) {
  constexpr int kSteps = 4000;
  constexpr double kEnd = 20.0, kStep = 2.0 * kEnd / kSteps;
  double sum = 0.0;
  for (int i = 0; i <= kSteps; ++i) {
    sum += f(-kEnd + kStep * i);
  }
  return sum * kStep;
}

double density(double x, double mean, double variance) {
  return std::exp(-0.5 * (x - mean) * (x - mean) / variance) / std::sqrt(2.0 * M_PI * variance);
}

TEST(PaperStatements, Lemma21PositiveFeaturesAreUnbiased) {
  std::uint32_t stream = 0;
  for (const std::size_t D : {1U, 3U, 8U}) {
    for (int trial = 0; trial < 4; ++trial, ++stream) {
      const Matrix x = inputs(D, 0.3, stream);
      const FeatureFamily family = plain_family("performer", D);
      const double kernel = std::exp(dot(x.row(0), x.row(1)));
      EXPECT_NEAR(std::log(kernel), log_kernel(family, x.row(0), x.row(1)), 1e-14);
      const Measured measured = measured_mean(family, x.row(0), x.row(1), stream);
      EXPECT_TRUE(measured.covers(1.0)) << measured.mean << " +- " << measured.error;
      // The features are those of the lemma, and their product is what was averaged.
      const FeatureDraws draws = draw(family, 3, 5, stream);
      const Vector fq = log_query_features(family, draws, x.row(0)),
                   fk = log_key_features(family, draws, x.row(1));
      EXPECT_NEAR(fq[2], dot(draws.omega.row(2), x.row(0)) - 0.5 * squared_norm(x.row(0)), 1e-14);
      EXPECT_NEAR(std::exp(fq[2] + fk[2]) / kernel,
                  relative_terms(family, draws, x.row(0), x.row(1))[2], 1e-12);
      // Perturbed: without the factors h(x) = exp(-|x|^2/2).
      const double forgotten = 0.5 * (squared_norm(x.row(0)) + squared_norm(x.row(1)));
      EXPECT_FALSE(measured.covers(std::exp(-forgotten)) && forgotten > 0.1);
    }
  }
}

TEST(PaperStatements, Section2TrigonometricFeaturesAreUnbiasedAndWorseWhereTheKernelIsSmall) {
  FeatureFamily trigonometric = plain_family("trigonometric", 2);
  trigonometric.trigonometric = true;
  const FeatureFamily positive = plain_family("performer", 2);
  const Vector q = {0.6, 0.3}, opposite = {-0.6, -0.3}, same = q;
  for (const Vector& k : {opposite, same}) {
    EXPECT_TRUE(measured_mean(trigonometric, q, k, 90).covers(1.0));
    // Perturbed: with h = 1 the kernel is the Gaussian one, not softmax.
    EXPECT_FALSE(measured_mean(trigonometric, q, k, 90).covers(std::exp(-squared_norm(q))));
  }
  EXPECT_LT(log_second_moment(positive, q, opposite), 1e-12);
  EXPECT_GT(log_second_moment(trigonometric, q, opposite), 0.5);
  // The other way round where the kernel is large: "especially where kernel values are small".
  EXPECT_LT(log_second_moment(trigonometric, q, same), 1e-12);
  EXPECT_GT(log_second_moment(positive, q, same), 0.5);
}

// q and k uniform on finite sets: no Gaussian assumption. V(psi) by quadrature.
class FiniteInputs {
 public:
  double f(double omega) const {
    return density(omega, 0.0, 1.0) * std::sqrt(b(omega, queries_) * b(omega, keys_));
  }
  double objective(const std::function<double(double)>& psi) const {
    return integral([&](double omega) { return f(omega) * f(omega) / psi(omega); });
  }

 private:
  static double b(double omega, const Vector& points) {
    double sum = 0.0;
    for (const double x : points) {
      sum += std::exp(2.0 * omega * x - x * x);
    }
    return sum / static_cast<double>(points.size());
  }
  const Vector queries_ = {-0.4, 0.1, 0.7}, keys_ = {-0.2, 0.5};
};

TEST(PaperStatements, Lemma31TheOptimalProposalMinimisesTheVariance) {
  const FiniteInputs inputs;
  const double mass = integral([&](double x) { return inputs.f(x); });
  const auto best = [&](double x) { return inputs.f(x) / mass; };
  const double least = inputs.objective(best);
  EXPECT_NEAR(least, mass * mass, 1e-12 * least);
  const std::vector<std::function<double(double)>> others = {
      [](double x) { return density(x, 0.0, 1.0); }, [](double x) { return density(x, 0.0, 1.5); },
      [](double x) { return density(x, 0.3, 1.2); },
      [](double x) { return 0.5 * density(x, -0.5, 1.0) + 0.5 * density(x, 0.8, 1.4); },
      [](double x) { return 1.0 / (2.0 * std::cosh(0.5 * M_PI * x)); }};  // hyperbolic secant
  for (const auto& psi : others) {
    EXPECT_NEAR(integral(psi), 1.0, 1e-9);
    EXPECT_GT(inputs.objective(psi), least * (1.0 + 1e-6));
  }
  // Mixing psi* with any of them only loses, from the first step on.
  for (const double part : {0.01, 0.1}) {
    const auto mixed = [&](double x) { return (1.0 - part) * best(x) + part * others[1](x); };
    EXPECT_GT(inputs.objective(mixed), least * (1.0 + 1e-9));
  }
  // Perturbed: without the root, or with B of the queries alone, it is not optimal.
  const auto unrooted = [&](double x) { return inputs.f(x) * inputs.f(x) / density(x, 0.0, 1.0); };
  const double unrooted_mass = integral(unrooted);
  EXPECT_GT(inputs.objective([&](double x) { return unrooted(x) / unrooted_mass; }),
            least * (1.0 + 1e-6));
}

TEST(PaperStatements, Lemma31TheObjectiveIsTheMeanVariance) {
  // For one pair of points: F V(psi) is E[x^2] kappa^2 of the closed form, for each proposal.
  const Vector q = {0.4}, k = {0.3};
  for (const double p : {0.8, 1.0, 1.7}) {
    const FeatureFamily family = proposal_family("p", Matrix::diagonal(Vector{p}));
    const double want = std::exp(log_second_moment(family, q, k) + 2.0 * q[0] * k[0]);
    const double got = integral([&](double x) {
      const double z = std::exp((q[0] + k[0]) * x - 0.5 * (q[0] * q[0] + k[0] * k[0]));
      return std::pow(density(x, 0.0, 1.0) * z, 2) / density(x, 0.0, p);
    });
    EXPECT_NEAR(got, want, 1e-11 * want);
  }
}

InputMoments one_dimensional(double query_mean, double key_mean, double query, double key) {
  return {{query_mean}, {key_mean}, Matrix(1, 1, query), Matrix(1, 1, key)};
}

TEST(PaperStatements, Theorem32ClosedFormsEqualQuadrature) {
  for (const InputMoments& m :
       {one_dimensional(0.0, 0.0, 0.1, 0.1), one_dimensional(0.2, -0.4, 0.05, 0.15),
        one_dimensional(0.3, 0.1, 0.0, 0.2)}) {
    // B_x by its definition; a variance of zero is the point itself.
    const double omega = 0.7, variance = m.query_covariance(0, 0), mean = m.query_mean[0];
    const auto term = [&](double x) { return std::exp(2.0 * omega * x - x * x); };
    const double b = variance == 0.0
                         ? term(mean)
                         : integral([&](double x) { return density(x, mean, variance) * term(x); });
    EXPECT_NEAR(log_b(m.query_mean, m.query_covariance, Vector{omega}), std::log(b), 1e-10);

    const auto f = [&](double x) {
      return density(x, 0.0, 1.0) *
             std::exp(0.5 * log_b(m.query_mean, m.query_covariance, Vector{x}) +
                      0.5 * log_b(m.key_mean, m.key_covariance, Vector{x}));
    };
    const double mass = integral(f);
    EXPECT_NEAR(log_least_objective(m), 2.0 * std::log(mass), 1e-10);
    const GaussianProposal best = optimal_proposal(m);
    for (const double x : {-1.0, 0.2, 2.0}) {
      EXPECT_NEAR(density(x, best.mean[0], best.covariance(0, 0)), f(x) / mass, 1e-10);
    }
    const GaussianProposal other{{0.2}, Matrix(1, 1, 1.3)};
    const double objective = integral([&](double x) { return f(x) * f(x) / density(x, 0.2, 1.3); });
    EXPECT_NEAR(log_objective(m, other), std::log(objective), 1e-9);
    EXPECT_NEAR(log_objective(m, best), log_least_objective(m), 1e-10);
  }
}

TEST(PaperStatements, Theorem32ExpectedSquareEqualsQuadrature) {
  const InputMoments m = one_dimensional(0.2, -0.3, 0.1, 0.2);
  const double want = integral([&](double q) {
    return density(q, 0.2, 0.1) * std::exp(2.0 * q * -0.3 + 2.0 * q * q * 0.2);
  });
  EXPECT_NEAR(log_expected_square(m), std::log(want), 1e-10);
  EXPECT_TRUE(std::isinf(log_expected_square(zero_mean_moments(Matrix(1, 1, 0.5)))));
}

TEST(PaperStatements, Theorem32TheOptimalCovarianceIsTheFormulaAndMinimises) {
  for (std::uint32_t stream = 0; stream < 8; ++stream) {
    const std::size_t D = 2 + stream % 4;
    const Matrix lambda = covariance_with(geometric_spectrum(D, 0.05, 1.0 + 2.0 * stream),
                                          random_rotation(D, {3, stream}));
    const InputMoments m = zero_mean_moments(lambda);
    const Matrix best = optimal_covariance(lambda);
    // (I + 2 Lambda) = Sigma* (I - 2 Lambda)
    const Matrix identity = Matrix::identity(D);
    const Matrix difference =
        add(multiply(best, add(identity, lambda, -2.0)), add(identity, lambda, 2.0), -1.0);
    EXPECT_LT(largest(difference), 1e-13);
    const double least = log_objective(m, {Vector(D, 0.0), best});
    EXPECT_NEAR(least, log_least_objective(m), 1e-12);
    // A minimum over all Gaussian proposals: it grows quadratically along random directions, so
    // that a perturbed formula for Sigma* fails.
    for (std::uint32_t trial = 0; trial < 4; ++trial) {
      const Matrix step = normal_matrix(D, D, {4, stream, trial});
      const Matrix moved = add(best, add(step, transpose(step)), 0.02);
      EXPECT_GT(log_objective(m, {Vector(D, 0.0), moved}), least + 1e-7);
    }
    EXPECT_GT(log_objective(m, {Vector(D, 0.05), best}), least + 1e-7);
    const Matrix wrong = add(identity, lambda, 4.0);  // first order of the formula
    EXPECT_GT(log_objective(m, {Vector(D, 0.0), wrong}), least + 1e-7);
  }
}

// Largest eigenvalue over smallest.
double condition(const Matrix& a) {
  const Spectrum spectrum = symmetric_spectrum(a);
  return spectrum.values.back() / spectrum.values.front();
}

TEST(PaperStatements, Theorem32Item1IsotropicIfAndOnlyIfTheInputsAre) {
  const Matrix rotation = random_rotation(5, {8});
  for (const double mean : {0.01, 0.1, 0.2}) {
    EXPECT_NEAR(condition(optimal_covariance(scale(Matrix::identity(5), mean))), 1.0, 1e-12);
    for (const double input_condition : {1.01, 1.5, 2.0}) {
      const Matrix lambda = covariance_with(geometric_spectrum(5, mean, input_condition), rotation);
      const Matrix best = optimal_covariance(lambda);
      EXPECT_GT(condition(best), 1.0 + 1e-5);
      // The same eigenvectors: the matrices commute.
      const Matrix commutator = add(multiply(best, lambda), multiply(lambda, best), -1.0);
      EXPECT_LT(largest(commutator), 1e-12);
    }
  }
}

TEST(PaperStatements, Theorem32Item2StrictlyLessVarianceThanIsotropicDraws) {
  for (const double lambda : {1e-4, 0.01, 0.1, 0.16}) {
    const InputMoments m = zero_mean_moments(Matrix::diagonal(Vector{lambda, 0.3 * lambda, 0.0}));
    const GaussianProposal isotropic{Vector(3, 0.0), Matrix::identity(3)};
    const double gap = log_objective(m, isotropic) - log_least_objective(m);
    EXPECT_GT(gap, lambda * lambda) << lambda;  // 8 lambda^2 to first order, for each eigenvalue
    EXPECT_LT(expected_variance(m, optimal_proposal(m), 4), expected_variance(m, isotropic, 4));
  }
  // Not strict for the degenerate covariance only.
  const InputMoments zero = zero_mean_moments(Matrix(3, 3));
  EXPECT_NEAR(log_objective(zero, {Vector(3, 0.0), Matrix::identity(3)}), 0.0, 1e-15);
  EXPECT_NEAR(log_least_objective(zero), 0.0, 1e-15);
}

TEST(PaperStatements, Equation4DarkFeaturesAreUnbiasedForTheirKernel) {
  for (const std::size_t rank : {2U, 4U}) {
    FitOptions options;
    options.factor = scale(normal_matrix(rank, 4, {21}), 0.6);
    if (rank == 4) {
      std::ranges::fill(options.factor.row(1), 0.0);  // singular covariance
    }
    const FeatureFamily dark =
        fit_family(EstimatorKind::kDark, zero_mean_moments(Matrix::identity(4)), options);
    const Matrix sigma = multiply(transpose(options.factor), options.factor);
    for (std::uint32_t trial = 0; trial < 4; ++trial) {
      const Matrix x = inputs(4, 0.4, 40 + trial);
      EXPECT_NEAR(log_kernel(dark, x.row(0), x.row(1)),
                  mahalanobis_product(sigma, x.row(0), x.row(1)), 1e-14);
      const Measured measured = measured_mean(dark, x.row(0), x.row(1), 50 + trial);
      EXPECT_TRUE(measured.covers(1.0));
    }
  }
}

TEST(PaperStatements, Equation4EstimatesAnotherKernelThanSoftmax) {
  FitOptions options;
  options.factor = Matrix::diagonal(Vector{1.5, 0.5});
  const FeatureFamily dark =
      fit_family(EstimatorKind::kDark, zero_mean_moments(Matrix::identity(2)), options);
  const Vector q = {0.5, 0.4}, k = {0.6, -0.1};
  // Perturbed: the estimate over exp(q . k) in place of exp(q^T Sigma k) is not 1.
  const double ratio = std::exp(log_kernel(dark, q, k) - dot(q, k));
  EXPECT_FALSE(measured_mean(dark, q, k, 60).covers(1.0 / ratio));
}

TEST(PaperStatements, AppendixBDrawsOfSigmaAreMappedWhiteDraws) {
  // omega~ = M^T w: omega~ . x = w . (M x), and x^T Sigma x = |M x|^2.
  const Matrix factor = normal_matrix(3, 5, {31});
  const Matrix sigma = multiply(transpose(factor), factor);
  const Vector x(5, 0.3), w = {0.2, -1.0, 0.7};
  EXPECT_NEAR(dot(multiply(transpose(factor), w), x), dot(w, multiply(factor, x)), 1e-14);
  EXPECT_NEAR(mahalanobis_product(sigma, x, x), squared_norm(multiply(factor, x)), 1e-13);
}

TEST(PaperStatements, Proposition41WeightedIsotropicDrawsEqualInExpectation) {
  const Matrix rotation = random_rotation(3, {41});
  FitOptions options;
  options.factor = covariance_with(Vector{0.8, 1.0, 1.1}, rotation);
  const InputMoments m = zero_mean_moments(Matrix::identity(3));
  const FeatureFamily weighted = fit_family(EstimatorKind::kWeighted, m, options),
                      dark = fit_family(EstimatorKind::kDark, m, options);
  for (std::uint32_t trial = 0; trial < 6; ++trial) {
    const Matrix x = inputs(3, 0.3, 70 + trial);
    EXPECT_EQ(log_kernel(weighted, x.row(0), x.row(1)), log_kernel(dark, x.row(0), x.row(1)));
    EXPECT_TRUE(measured_mean(weighted, x.row(0), x.row(1), 80 + trial).covers(1.0));
    EXPECT_TRUE(measured_mean(dark, x.row(0), x.row(1), 80 + trial).covers(1.0));
  }
  // The weight is p_Sigma / p_I at omega~ = M^T omega.
  const FeatureDraws draws = draw(weighted, 4, 1);
  const Spectrum sigma = symmetric_spectrum(multiply(options.factor, options.factor));
  const Matrix inverse = matrix_function(sigma, [](double s) { return 1.0 / s; });
  for (std::size_t j = 0; j < 4; ++j) {
    const Vector omega = multiply(transpose(options.factor), draws.omega.row(j));
    const double ratio = -0.5 * log_det(sigma) - 0.5 * dot(omega, multiply(inverse, omega)) +
                         0.5 * squared_norm(omega);
    EXPECT_NEAR(draws.log_weights[j], ratio, 1e-6);
  }
}

TEST(PaperStatements, Proposition41SaysNothingAboutVariance) {
  // Equal in expectation, and that is all: the weighted form is the noisier one, without bound.
  const Vector q = {0.3}, k = {0.2};
  const InputMoments m = zero_mean_moments(Matrix::identity(1));
  for (const double sigma : {0.5, 1.5, 1.9, 2.0, 3.0}) {
    FitOptions options;
    options.factor = Matrix(1, 1, std::sqrt(sigma));
    const double weighted =
        log_second_moment(fit_family(EstimatorKind::kWeighted, m, options), q, k);
    const double dark = log_second_moment(fit_family(EstimatorKind::kDark, m, options), q, k);
    EXPECT_GT(weighted, dark) << sigma;
    EXPECT_EQ(std::isinf(weighted), sigma >= 2.0) << sigma;
    EXPECT_NEAR(dark, sigma * 0.25, 1e-12);
  }
}

TEST(PaperStatements, AppendixCMahalanobisIdentities) {
  const Matrix factor = normal_matrix(4, 4, {51});
  const Matrix sigma = multiply(transpose(factor), factor);
  const Matrix x = normal_matrix(2, 4, {52});
  const auto q = x.row(0), k = x.row(1);
  const double product = mahalanobis_product(sigma, q, k);
  const double identity =
      0.5 * (mahalanobis_product(sigma, q, q) + mahalanobis_product(sigma, k, k) -
             mahalanobis_distance2(sigma, q, k));
  EXPECT_NEAR(product, identity, 1e-12);
  EXPECT_NEAR(product, dot(multiply(factor, q), multiply(factor, k)), 1e-12);
  const Vector mapped_difference = add(multiply(factor, q), multiply(factor, k), -1.0);
  EXPECT_NEAR(mahalanobis_distance2(sigma, q, k), squared_norm(mapped_difference), 1e-12);
  // Perturbed: a sum in place of the difference.
  EXPECT_GT(std::abs(product -
                     0.5 * (mahalanobis_product(sigma, q, q) + mahalanobis_product(sigma, k, k) +
                            mahalanobis_distance2(sigma, q, k))),
            1e-3);
}

TEST(PaperStatements, AppendixCWhiteningMakesTheInputsIsotropic) {
  const Matrix rotation = random_rotation(5, {61});
  const Vector values = {0.1, 0.5, 1.0, 2.0, 7.0};
  const Matrix lambda = covariance_with(values, rotation);
  const Spectrum spectrum = symmetric_spectrum(lambda);
  const Matrix map = whitening(spectrum, 5, 0.0);
  const InputMoments white = mapped(zero_mean_moments(lambda), map, map);
  EXPECT_LT(largest(add(white.query_covariance, Matrix::identity(5), -1.0)), 1e-12);
  // |q - k|^2 in Lambda^-1 is the sum of delta_i^2 / lambda_i.
  const Matrix x = normal_matrix(2, 5, {62});
  const Vector delta = multiply(spectrum.vectors, add(x.row(0), x.row(1), -1.0));
  double sum = 0.0;
  for (std::size_t i = 0; i < 5; ++i) {
    sum += delta[i] * delta[i] / spectrum.values[i];
  }
  EXPECT_NEAR(mahalanobis_distance2(multiply(map, map), x.row(0), x.row(1)), sum, 1e-11);
  // The R leading directions alone; the largest two of the variances hold 9 of 10.6.
  EXPECT_EQ(leading_count(spectrum, 0.66), 1U);
  EXPECT_EQ(leading_count(spectrum, 0.67), 2U);
  EXPECT_EQ(leading_count(spectrum, 0.85), 3U);
  EXPECT_EQ(leading_count(spectrum, 1.0), 5U);
  const Matrix leading = whitening(spectrum, 2, 0.0);
  const InputMoments two = mapped(zero_mean_moments(lambda), leading, leading);
  EXPECT_LT(largest(add(two.key_covariance, Matrix::identity(2), -1.0)), 1e-12);
}

}  // namespace
}  // namespace darkformer::estimators::paper_statements_test
