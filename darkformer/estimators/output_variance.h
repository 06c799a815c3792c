// How far attention with random features will be off, before anything is drawn: the variance of its
// output for one query, from the keys and values it sees. The plain form, in double; windows of
// tokens go through evaluation/predicted_error.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

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

// What F features give of a first-order squared error of `variance`/F, where no estimate can be
// further off than one that knows nothing, whose squared error is `ignorance`:
//   1 / (F/variance + 1/ignorance), from log variance; 0 where either is.
double bounded_error2(double log_variance, double features, double ignorance);

}  // namespace darkformer::estimators
