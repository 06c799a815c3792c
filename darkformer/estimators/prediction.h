// How good an estimator is, before it is drawn: moments, variance, features needed. For independent
// draws; orthogonal ones do better or worse than this says (boundaries_test.cc).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "darkformer/estimators/feature_family.h"
#include "darkformer/estimators/input_moments.h"

namespace darkformer::estimators {

// log E[x^order] of one draw's estimate x over the kernel, for a pair (q,k), order > 0. Infinite
// where an eigenvalue of P is (order - 1)/order or less. With s_l, v_l the spectrum of P, z = u_q +
// u_k and n = order:
//   sum over l of (n-1)/2 log s_l - 1/2 log(n - (n-1)/s_l) + (v_l . z)^2 (n^2/(n - (n-1)/s_l) -
//   n)/2
// For trigonometric families orders 1, 2 and 4: cosh(|u_q - u_k|^2) for the second.
double log_moment(const FeatureFamily& family,
                  double order,
                  std::span<const double> q,
                  std::span<const double> k);
// order 2: sum over l of log s_l - log(2 s_l - 1)/2 + (v_l . z)^2 / (2 s_l - 1)
double log_second_moment(const FeatureFamily& family,
                         std::span<const double> q,
                         std::span<const double> k);

// Variance of the mean of F independent draws, over the squared kernel.
double relative_variance(double log_second_moment, std::size_t features);
// Features with which the standard deviation is `error` times the kernel; Error: error <= 0.
double features_needed(double log_second_moment, double error);
// F / E[x^2]: what effective_sample_size of F draws comes to.
double predicted_sample_size(double log_second_moment, std::size_t features);

// E over pairs of log_second_moment, from the moments of the inputs alone; for positive features.
// The quantity that oprf and sderf minimise.
double expected_log_second_moment(const FeatureFamily& family, const InputMoments& moments);

}  // namespace darkformer::estimators
