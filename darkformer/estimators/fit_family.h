// Fitting an estimator to the moments of its inputs: which maps, which proposal.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "darkformer/estimators/feature_family.h"
#include "darkformer/estimators/input_moments.h"

namespace darkformer::estimators {

// S_q, S_k: second moments of the inputs (covariances where they are centred); s(x) =
// (3 + 2x + sqrt((2x+1)^2 + 8x)) / 4; Z = E (q+k)(q+k)^T.
//   kPerformer   P = I                                             Lemma 2.1
//   kImportance  P = ((I + 2 S_q)^-1 + (I + 2 S_k)^-1 - I)^-1      Lemma 3.1, Theorem 3.2
//   kWeighted    Mq = Mk = M, P = (M M^T)^-1: draws of N(0, I_D) with the weights p_Sigma / p_I,
//                Sigma = M^T M                                     Proposition 4.1
//   kOprf        P = s(trace Z / D) I                              FAVOR++
//   kSderf       P = Q diag(s(z)) Q^T for Z = Q diag(z) Q^T        FAVOR#
//   kAderf       Mq = A^1/2, Mk = A^-1/2 with A S_q A = S_k, then as kOprf
//   kDark        Mq = Mk = M, P = I                                Equation 4
//   kTrigonometric  cosines and sines, P = I                       Section 2
enum class EstimatorKind : std::uint8_t {
  kPerformer,
  kImportance,
  kWeighted,
  kOprf,
  kSderf,
  kAderf,
  kDark,
  kTrigonometric,
};

std::string_view estimator_name(EstimatorKind kind);
inline constexpr std::size_t kEstimatorKinds = 8;

struct FitOptions {
  bool centre = false;      // subtract the means; normalised attention does not change
  bool orthogonal = false;  // blocks of orthogonal draws
  Matrix factor = {};       // M (R,D) of kDark and kWeighted; empty: the identity
  // kImportance: eigenvalues of P^-1 are raised to at least this, where they would be refused.
  std::optional<double> clip = {};
};

// Error, naming the offending value: moments that are not finite; kImportance where its bracket is
// not positive definite (equal covariances: an eigenvalue of 1/2 or more) and clip is not given;
// kWeighted where M M^T is singular; R > D.
FeatureFamily fit_family(EstimatorKind kind,
                         const InputMoments& moments,
                         const FitOptions& options = {});

// P of a given covariance, Mq = Mk = I. Error: an eigenvalue of P is 1/2 or less, where the
// variance is infinite for every pair.
FeatureFamily proposal_family(std::string name, const Matrix& covariance);

// s(x) above: the minimum of log s - log(2s-1)/2 + x/(2s-1).
double dense_proposal_scale(double x);

}  // namespace darkformer::estimators
