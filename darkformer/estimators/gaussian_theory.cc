// Gaussian integrals, by the spectra of the matrices in them.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/estimators/gaussian_theory.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "darkformer/base/error.h"

namespace darkformer::estimators {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double quadratic(const Matrix& a, std::span<const double> x) {
  return dot(x, multiply(a, x));
}

bool positive(const Spectrum& a) {
  return a.values.front() > 0.0;
}

Matrix inverse(const Spectrum& a) {
  return matrix_function(a, [](double x) { return 1.0 / x; });
}

// log B(omega) = constant + 2 omega . linear + 2 omega^T square omega
struct LogB {
  double constant;
  Vector linear;
  Matrix square;
};

LogB log_b_form(std::span<const double> mean, const Matrix& covariance) {
  const Spectrum spectrum = symmetric_spectrum(covariance);
  const Matrix w = matrix_function(spectrum, [](double x) { return 1.0 / (1.0 + 2.0 * x); });
  double constant = -quadratic(w, mean);
  for (const double value : spectrum.values) {
    constant -= 0.5 * std::log1p(2.0 * value);
  }
  return {constant, multiply(w, mean),
          matrix_function(spectrum, [](double x) { return x / (1.0 + 2.0 * x); })};
}

// B_q B_k
LogB log_b_product(const InputMoments& m) {
  const LogB q = log_b_form(m.query_mean, m.query_covariance),
             k = log_b_form(m.key_mean, m.key_covariance);
  return {q.constant + k.constant, add(q.linear, k.linear), add(q.square, k.square)};
}

bool same_zero_mean(const InputMoments& m) {
  return squared_norm(m.query_mean) == 0.0 && squared_norm(m.key_mean) == 0.0 &&
         largest(add(m.query_covariance, m.key_covariance, -1.0)) == 0.0;
}

}  // namespace

double log_b(std::span<const double> mean,
             const Matrix& covariance,
             std::span<const double> omega) {
  const LogB b = log_b_form(mean, covariance);
  return b.constant + 2.0 * dot(omega, b.linear) + 2.0 * quadratic(b.square, omega);
}

Matrix optimal_precision(const InputMoments& m) {
  const auto part = [](const Matrix& lambda) {
    return matrix_function(symmetric_spectrum(lambda),
                           [](double x) { return 1.0 / (1.0 + 2.0 * x); });
  };
  const Matrix sum = add(part(m.query_covariance), part(m.key_covariance));
  return add(sum, Matrix::identity(m.dim()), -1.0);
}

Matrix optimal_covariance(const Matrix& lambda) {
  const Spectrum spectrum = symmetric_spectrum(lambda);
  require(spectrum.values.back() < 0.5, "importance: the inputs' covariance has the eigenvalue ",
          spectrum.values.back(),
          "; the optimal proposal exists only where all are below 1/2 (centre the inputs, clip, or "
          "use sderf, which always exists)");
  return matrix_function(spectrum, [](double x) { return (1.0 + 2.0 * x) / (1.0 - 2.0 * x); });
}

GaussianProposal optimal_proposal(const InputMoments& m) {
  if (same_zero_mean(m)) {
    return {m.query_mean, optimal_covariance(m.query_covariance)};
  }
  const Spectrum precision = symmetric_spectrum(optimal_precision(m));
  require(positive(precision),
          "importance: (I + 2 Lambda_q)^-1 + (I + 2 Lambda_k)^-1 - I has the eigenvalue ",
          precision.values.front(),
          "; the optimal proposal exists only where all are above 0 (centre the inputs, clip, or "
          "use sderf, which always exists)");
  const Matrix covariance = inverse(precision);
  return {multiply(covariance, log_b_product(m).linear), covariance};
}

double log_objective(const InputMoments& m, const GaussianProposal& psi) {
  const Spectrum proposal = symmetric_spectrum(psi.covariance);
  require(positive(proposal), "a proposal covariance has the eigenvalue ", proposal.values.front(),
          "; wanted all above 0");
  const Matrix precision = inverse(proposal);
  const LogB b = log_b_product(m);
  // The exponent of p_I^2 / psi B_q B_k is -omega^T H omega / 2 + g . omega + constants.
  Matrix h = add(scale(Matrix::identity(m.dim()), 2.0), precision, -1.0);
  h = add(h, b.square, -4.0);
  const Spectrum curvature = symmetric_spectrum(h);
  if (!positive(curvature)) {
    return kInfinity;
  }
  const Vector pull = multiply(precision, psi.mean);
  Vector g = add(b.linear, b.linear);
  g = add(g, pull, -1.0);
  return 0.5 * log_det(proposal) - 0.5 * log_det(curvature) +
         0.5 * quadratic(inverse(curvature), g) + 0.5 * dot(psi.mean, pull) + b.constant;
}

double log_least_objective(const InputMoments& m) {
  const GaussianProposal best = optimal_proposal(m);
  const LogB b = log_b_product(m);
  // int f = det(P)^1/2 exp(linear^T P linear / 2 + constant / 2)
  return log_det(symmetric_spectrum(best.covariance)) + quadratic(best.covariance, b.linear) +
         b.constant;
}

double log_expected_square(const InputMoments& m) {
  const Matrix root = matrix_function(symmetric_spectrum(m.query_covariance),
                                      [](double x) { return std::sqrt(std::max(x, 0.0)); });
  const Matrix inner = multiply(multiply(root, m.key_covariance), root);
  const Spectrum j = symmetric_spectrum(add(Matrix::identity(m.dim()), inner, -4.0));
  if (!positive(j)) {
    return kInfinity;
  }
  // With q = mean + root x: 2 k_mean . q + 2 q^T Lambda_k q = constant + g . x + 2 x^T inner x
  const Vector along = multiply(m.key_covariance, m.query_mean);
  const Vector g = multiply(root, add(add(m.key_mean, m.key_mean), along, 4.0));
  return 2.0 * dot(m.query_mean, m.key_mean) + 2.0 * dot(m.query_mean, along) - 0.5 * log_det(j) +
         0.5 * quadratic(inverse(j), g);
}

double expected_variance(const InputMoments& m, const GaussianProposal& psi, std::size_t features) {
  require(features > 0, "the variance of ", features, " features; wanted at least 1");
  const double objective = log_objective(m, psi), square = log_expected_square(m);
  if (!std::isfinite(objective) || !std::isfinite(square)) {
    return kInfinity;
  }
  return (std::exp(objective) - std::exp(square)) / static_cast<double>(features);
}

double mahalanobis_product(const Matrix& sigma,
                           std::span<const double> x,
                           std::span<const double> y) {
  return dot(x, multiply(sigma, y));
}

double mahalanobis_distance2(const Matrix& sigma,
                             std::span<const double> x,
                             std::span<const double> y) {
  return quadratic(sigma, add(x, y, -1.0));
}

}  // namespace darkformer::estimators
