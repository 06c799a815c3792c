// Section 3 of the paper in closed form: B_x, the optimal proposal, the variance objective.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "darkformer/estimators/input_moments.h"

namespace darkformer::estimators {

// log B_x(omega), B_x(omega) = E exp(2 omega . x - |x|^2), for x ~ N(mean, Lambda), singular Lambda
// included:
//   -log det(I + 2 Lambda)/2 - mean^T W mean + 2 omega . W mean + 2 omega^T Lambda W omega,
//   W = (I + 2 Lambda)^-1
double log_b(std::span<const double> mean, const Matrix& covariance, std::span<const double> omega);

// N(mean, covariance)
struct GaussianProposal {
  Vector mean;
  Matrix covariance;
};

// (I + 2 Lambda_q)^-1 + (I + 2 Lambda_k)^-1 - I: the inverse of the optimal covariance where it is
// positive definite.
Matrix optimal_precision(const InputMoments& moments);

// psi*(omega) ~ p_I(omega) sqrt(B_q(omega) B_k(omega)) of Lemma 3.1 for Gaussian inputs; its mean
// is zero where theirs is. For zero means and one Lambda the covariance is Theorem 3.2's (I + 2
// Lambda)(I - 2 Lambda)^-1, computed from the eigenvalues of Lambda so that nothing cancels near
// 1/2. Error, printing the eigenvalue, where psi* cannot be normalised.
GaussianProposal optimal_proposal(const InputMoments& moments);
Matrix optimal_covariance(const Matrix& lambda);

// log of F V(psi) = E over pairs of E[x^2], x one draw's estimate of exp(q . k) with the importance
// factor p_I/psi; infinite where the integral is.
double log_objective(const InputMoments& moments, const GaussianProposal& psi);
// The least of it: 2 log of the integral of p_I sqrt(B_q B_k).
double log_least_objective(const InputMoments& moments);
// log E exp(2 q . k); infinite where an eigenvalue of 4 Lambda_q Lambda_k is 1 or more.
double log_expected_square(const InputMoments& moments);
// E Var of F draws: (exp(log_objective) - exp(log_expected_square)) / F, infinite where either is.
double expected_variance(const InputMoments& moments,
                         const GaussianProposal& psi,
                         std::size_t features);

// x^T Sigma y and |x - y|_Sigma^2 (Appendix C).
double mahalanobis_product(const Matrix& sigma,
                           std::span<const double> x,
                           std::span<const double> y);
double mahalanobis_distance2(const Matrix& sigma,
                             std::span<const double> x,
                             std::span<const double> y);

}  // namespace darkformer::estimators
