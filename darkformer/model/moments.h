// What the queries and keys of a layer look like: means and covariances, for centring, whitening
// and prediction.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace darkformer {

// Sums over tokens in double, of queries and keys as the mixer gets them (rotated, not scaled).
class LayerMoments {
 public:
  LayerMoments(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim);
  // The sums themselves, to be kept in a file and taken from one. Error: shapes that do not fit.
  struct Sums {
    at::Tensor queries, query_products;  // (H,D), (H,D,D), double
    at::Tensor keys, key_products;       // (G,D), (G,D,D), double
  };
  LayerMoments(std::int64_t tokens, const Sums& sums);
  Sums sums() const { return {query_sum_, query_products_, key_sum_, key_products_}; }

  // q (B,H,T,D), k (B,G,T,D)
  void add(const at::Tensor& q, const at::Tensor& k);
  std::int64_t tokens() const { return tokens_; }

  // Pooled over the query heads of each of `groups` groups -> (groups,D) and (groups,D,D), double.
  // groups divides H and is a multiple of G (keys are then repeated), or is 1 (all are pooled).
  at::Tensor query_mean(std::int64_t groups) const;
  at::Tensor query_covariance(std::int64_t groups) const;
  at::Tensor key_mean(std::int64_t groups) const;
  at::Tensor key_covariance(std::int64_t groups) const;

 private:
  std::int64_t tokens_ = 0;
  at::Tensor query_sum_, query_products_;  // (H,D), (H,D,D)
  at::Tensor key_sum_, key_products_;      // (G,D), (G,D,D)
};

}  // namespace darkformer
