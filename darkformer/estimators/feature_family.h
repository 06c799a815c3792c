// The one log-feature form behind every estimator of the kernel exp(q . k).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "darkformer/estimators/matrix.h"

namespace darkformer::estimators {

// With u_q = Mq (q - a), u_k = Mk (k - b) and m = Mq a:
//   w_j ~ N(0, I_R)    omega_j = P^1/2 w_j    weight_j = 1/2 log det P + |w_j|^2/2 - |omega_j|^2/2
//   log phi_q_j = omega_j . u_q - |u_q|^2/2 + weight_j/2
//   log phi_k_j = omega_j . u_k - |u_k|^2/2 + weight_j/2 + m . u_k
//   mean over j of phi_q_j phi_k_j estimates exp(u_q . u_k + m . u_k), without bias.
// Trigonometric: phi_q and phi_k are exp(|u|^2/2) (cos, sin)(omega_j . u) and P is the identity.
struct FeatureFamily {
  std::string name;
  Matrix query_map, key_map;        // (R,D): Mq, Mk
  Vector query_center, key_center;  // (D): a, b
  Spectrum proposal;                // P, (R,R)
  bool orthogonal = false;          // blocks of orthogonal directions
  bool trigonometric = false;

  std::size_t dim() const { return query_map.cols(); }
  std::size_t rank() const { return query_map.rows(); }
};

// Identity maps, zero centres, P = I.
FeatureFamily plain_family(std::string name, std::size_t dim);

// The draws of a family: omega (F,R) and weights (F).
struct FeatureDraws {
  Matrix omega;
  Vector log_weights;

  std::size_t features() const { return omega.rows(); }
};

// w (F,R), a pure function of its arguments. Error: F = 0.
Matrix white_draws(std::size_t features,
                   std::size_t rank,
                   bool orthogonal,
                   std::uint64_t seed,
                   std::uint32_t stream = 0,
                   std::uint32_t index = 0);
// omega_j and weight_j from given w (F,R).
FeatureDraws propose(const FeatureFamily& family, const Matrix& white);
FeatureDraws draw(const FeatureFamily& family,
                  std::size_t features,
                  std::uint64_t seed,
                  std::uint32_t stream = 0,
                  std::uint32_t index = 0);

// u_q and u_k (R).
Vector map_query(const FeatureFamily& family, std::span<const double> q);
Vector map_key(const FeatureFamily& family, std::span<const double> k);

// log of what the family estimates: u_q . u_k + m . u_k. Differs from q . Mq^T Mk k by a function
// of q alone.
double log_kernel(const FeatureFamily& family,
                  std::span<const double> q,
                  std::span<const double> k);

// log phi_q (F) and log phi_k (F); not for trigonometric families, whose features have signs.
Vector log_query_features(const FeatureFamily& family,
                          const FeatureDraws& draws,
                          std::span<const double> q);
Vector log_key_features(const FeatureFamily& family,
                        const FeatureDraws& draws,
                        std::span<const double> k);

// Of each draw, its estimate of the kernel over the kernel itself (F): mean 1.
Vector relative_terms(const FeatureFamily& family,
                      const FeatureDraws& draws,
                      std::span<const double> q,
                      std::span<const double> k);
// Their mean: the estimate over the kernel.
double relative_estimate(const FeatureFamily& family,
                         const FeatureDraws& draws,
                         std::span<const double> q,
                         std::span<const double> k);
double estimate(const FeatureFamily& family,
                const FeatureDraws& draws,
                std::span<const double> q,
                std::span<const double> k);

// Estimated kernels of all rows of q with all rows of k, each row of the result normalised to sum
// 1: attention without a mask (queries, keys). `exact` is the same without estimating.
Matrix attention_estimate(const FeatureFamily& family,
                          const FeatureDraws& draws,
                          const Matrix& q,
                          const Matrix& k);
Matrix exact_attention_of(const FeatureFamily& family, const Matrix& q, const Matrix& k);

// How many equally important draws the terms are worth: (sum)^2 / (sum of squares), 1 to F.
double effective_sample_size(std::span<const double> terms);

}  // namespace darkformer::estimators
