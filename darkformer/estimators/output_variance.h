// How far attention with random features will be off, before anything is drawn: the error of its
// output for one query, from the keys and values it sees. The plain form, in double; windows of
// tokens go through evaluation/predicted_error.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <numbers>

#include "darkformer/estimators/feature_family.h"

namespace darkformer::estimators {

// With a_s = kappa_s / sum kappa the attention of q on key s, o = sum a_s v_s and x_s(omega) one
// draw's estimate of kappa_s over kappa_s, F draws give o_hat with, to first order in 1/F,
//   E |o_hat - o|^2 = 1/F sum over s, s' of a_s a_s' E[x_s x_s'] (v_s - o) . (v_s' - o),
//   E[x_s x_s'] = sqrt(E x_s^2 E x_s'^2) exp(-|u_s - u_s'|^2_K / 2),  K = P (2P - I)^-1
// (u: mapped keys): keys that are close to each other are off together, so that their errors cancel
// where their values agree. The same draws serve all keys, and one variance a key would miss that.

// log E[x x'] for the keys k and k' under one query; log_second_moment where they are equal. For
// positive features. Infinite where an eigenvalue of P is 1/2 or less.
double log_cross_moment(const FeatureFamily& family,
                        std::span<const double> q,
                        std::span<const double> k,
                        std::span<const double> other);

// log of F E |o_hat - o|^2 above, for q (D), keys (S,D), values (S,Dv). -infinity: no error at all.
double log_output_variance(const FeatureFamily& family,
                           std::span<const double> q,
                           const Matrix& keys,
                           const Matrix& values);

// What first order misses: where E[x^2] is far above F, the mean of F draws is hardly ever near its
// expectation. Terms so large that F draws do not meet one carry the kernel, and what is left is
// typically far below it:
//   E log(1/F sum_j x_j) <= min over 0 < beta <= 1 of (log F + log E[x^beta]) / beta - log F
// (performer: -(|u_q + u_k| - sqrt(2 log F))^2 / 2 beyond that root). beta = 1: it is at its
// expectation, and varies by E[x^2]/F; below, the sum is one of a stable law of index beta, whose
// logarithm varies by pi^2/6 (1/beta^2 - 1).
struct TypicalEstimate {
  double log_estimate = 0.0;  // of the kernel's estimate over the kernel, 0 or less
  double variance = 0.0;
};
TypicalEstimate typical_estimate(const FeatureFamily& family,
                                 double features,
                                 std::span<const double> q,
                                 std::span<const double> k);
// The betas that are tried: 1, 0.85, 0.85^2, ...
inline constexpr double kStableVariance = std::numbers::pi * std::numbers::pi / 6.0;
inline constexpr int kTypicalSteps = 18;
double typical_beta(int step);

// E |o_hat - o|^2 with F features. p: attention with the typical estimates in place of the
// kernels, o_p its output, spread = sum p_s |v_s - o_p|^2; c = sum p_s p_t sigma_s sigma_t rho_st,
// sigma^2 the variances above and rho the correlation exp(-|u_s - u_s'|^2_K / 2) of the keys:
//   |o_p - o|^2 + min(first order with F draws, spread c / (1 + c))
double predicted_error2(const FeatureFamily& family,
                        double features,
                        std::span<const double> q,
                        const Matrix& keys,
                        const Matrix& values);

}  // namespace darkformer::estimators
