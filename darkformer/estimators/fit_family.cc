// The rows of the table in fit_family.h.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/estimators/fit_family.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "darkformer/base/error.h"
#include "darkformer/estimators/gaussian_theory.h"

namespace darkformer::estimators {
namespace {

constexpr std::array<std::string_view, kEstimatorKinds> kNames = {
    "performer", "importance", "weighted", "oprf", "sderf", "aderf", "dark", "trigonometric"};
constexpr double kRidge = 1e-3;  // of the mean eigenvalue: directions below it are noise

// The inverse of P from the theory, its eigenvalues raised to `clip`, turned into P.
Spectrum importance_proposal(const InputMoments& inputs, const std::optional<double>& clip) {
  if (!clip) {
    return symmetric_spectrum(optimal_proposal(inputs).covariance);
  }
  require(*clip > 0.0, "importance: cannot clip at ", *clip, "; wanted a number above 0");
  Spectrum inverse = symmetric_spectrum(optimal_precision(inputs));
  for (double& value : inverse.values) {
    value = 1.0 / std::max(value, *clip);
  }
  return inverse;
}

Spectrum isotropic(double value, std::size_t size) {
  return {Vector(size, value), Matrix::identity(size)};
}

Spectrum oprf_proposal(const InputMoments& inputs) {
  const std::size_t D = inputs.dim();
  const double size = trace(sum_second_moment(inputs)) / static_cast<double>(D);
  return isotropic(dense_proposal_scale(size), D);
}

Spectrum sderf_proposal(const InputMoments& inputs) {
  Spectrum sums = symmetric_spectrum(sum_second_moment(inputs));
  for (double& value : sums.values) {
    value = dense_proposal_scale(std::max(value, 0.0));
  }
  return sums;
}

Matrix root_of(const Matrix& a, double power) {
  return matrix_function(symmetric_spectrum(a),
                         [=](double x) { return std::pow(std::max(x, 0.0), power); });
}

// A with A S_q A = S_k: the maps A^1/2 and A^-1/2 give queries and keys the same second moment.
void balance(FeatureFamily& family, const InputMoments& inputs) {
  const std::size_t D = inputs.dim();
  const Matrix s_q = query_second_moment(inputs), s_k = key_second_moment(inputs);
  const double ridge = kRidge * (trace(s_q) + trace(s_k)) / static_cast<double>(2 * D);
  if (ridge == 0.0) {
    return;  // all inputs are zero: nothing to balance
  }
  const Matrix q = add(s_q, Matrix::identity(D), ridge), k = add(s_k, Matrix::identity(D), ridge);
  const Matrix root = root_of(q, 0.5), inverse = root_of(q, -0.5);
  const Matrix middle = root_of(multiply(multiply(root, k), root), 0.5);
  const Matrix a = multiply(multiply(inverse, middle), inverse);
  family.query_map = root_of(a, 0.5);
  family.key_map = root_of(a, -0.5);
}

void set_factor(FeatureFamily& family, const Matrix& factor) {
  if (factor.empty()) {
    return;
  }
  const std::size_t D = family.dim();
  require(factor.cols() == D && factor.rows() >= 1 && factor.rows() <= D, family.name,
          ": a factor of ", factor.rows(), " x ", factor.cols(), "; wanted R x ", D,
          " with R from 1 to ", D);
  require(std::isfinite(largest(factor)), family.name, ": the factor has entries not finite");
  family.query_map = family.key_map = factor;
  family.proposal = isotropic(1.0, factor.rows());
}

// omega = M^-T w for w ~ N(0, I): P = (M M^T)^-1
Spectrum weighted_proposal(const Matrix& factor) {
  require(factor.rows() == factor.cols(), "weighted: a factor of ", factor.rows(), " x ",
          factor.cols(), "; wanted it square, so that the covariance has a density");
  Spectrum inverse = symmetric_spectrum(multiply_transposed(factor, factor));
  require(inverse.values.front() > 0.0, "weighted: the covariance has the eigenvalue ",
          inverse.values.front(), "; wanted all above 0");
  for (double& value : inverse.values) {
    value = 1.0 / value;
  }
  return inverse;
}

}  // namespace

std::string_view estimator_name(EstimatorKind kind) {
  return kNames[static_cast<std::size_t>(kind)];
}

double dense_proposal_scale(double x) {
  return 0.25 * (3.0 + 2.0 * x + std::sqrt((2.0 * x + 1.0) * (2.0 * x + 1.0) + 8.0 * x));
}

FeatureFamily fit_family(EstimatorKind kind,
                         const InputMoments& moments,
                         const FitOptions& options) {
  std::string name(estimator_name(kind));
  check_moments(moments, name);
  FeatureFamily family = plain_family(std::move(name), moments.dim());
  family.orthogonal = options.orthogonal;
  if (options.centre) {
    family.query_center = moments.query_mean;
    family.key_center = moments.key_mean;
    family.name += ", centred";
  }
  const InputMoments inputs = options.centre ? centred(moments) : moments;
  switch (kind) {
    case EstimatorKind::kPerformer:
      break;
    case EstimatorKind::kImportance:
      family.proposal =
          importance_proposal({Vector(inputs.dim(), 0.0), Vector(inputs.dim(), 0.0),
                               query_second_moment(inputs), key_second_moment(inputs)},
                              options.clip);
      break;
    case EstimatorKind::kWeighted:
      set_factor(family, options.factor);
      family.proposal = weighted_proposal(family.query_map);
      break;
    case EstimatorKind::kOprf:
      family.proposal = oprf_proposal(inputs);
      break;
    case EstimatorKind::kSderf:
      family.proposal = sderf_proposal(inputs);
      break;
    case EstimatorKind::kAderf:
      balance(family, inputs);
      family.proposal = oprf_proposal(mapped(inputs, family.query_map, family.key_map));
      break;
    case EstimatorKind::kDark:
      set_factor(family, options.factor);
      break;
    case EstimatorKind::kTrigonometric:
      family.trigonometric = true;
      break;
  }
  return family;
}

FeatureFamily proposal_family(std::string name, const Matrix& covariance) {
  FeatureFamily family = plain_family(std::move(name), covariance.rows());
  family.proposal = symmetric_spectrum(covariance);
  require(family.proposal.values.front() > 0.5, family.name,
          ": the proposal covariance has the eigenvalue ", family.proposal.values.front(),
          "; the variance is finite only where all are above 1/2");
  return family;
}

}  // namespace darkformer::estimators
