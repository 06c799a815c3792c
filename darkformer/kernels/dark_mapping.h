// From the arguments of dark attention to those of feature attention: maps, centres, scale and
// weights folded into base-2 draws.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "darkformer/kernels/dark_attention.h"

namespace darkformer::kernels {

inline constexpr float kLog2E = 1.44269504F;

// True where some keys are exact.
inline bool has_near_field(const DarkAttention& shape) {
  return shape.window > 0 || shape.sinks > 0;
}

// How many keys before a query, its own included, the far field does not see, and how many at the
// start it never sees.
inline std::size_t far_delay(const DarkAttention& shape) {
  return shape.far_all ? 0 : shape.window;
}
inline std::size_t far_skip(const DarkAttention& shape) {
  return shape.far_all ? 0 : shape.sinks;
}

// True where the near field sees queries and keys through the factor.
inline bool maps_near_field(const DarkAttention& shape, const DarkInputs& in) {
  return in.parameters.factor != nullptr && !shape.model_near && !shape.softmax_features;
}

// The kv head of parameter group n.
inline std::size_t key_head(const DarkAttention& shape, std::size_t n) {
  return n * shape.G / shape.N;
}

// Calls body(i) for i in [0, count): on threads where that fills them, else one after the other so
// that each product may use all.
void for_each_product(std::size_t count, const std::function<void(std::size_t)>& body);

// out (B,heads,rows,D) <- x - center, contiguous; center (groups,D) with head h in group h groups /
// heads, or null.
void copy_centred(HeadsView<const float> x,
                  std::size_t B,
                  std::size_t heads,
                  std::size_t rows,
                  std::size_t D,
                  const float* center,
                  std::size_t groups,
                  float* out);

// r as far as the keys of the far field do not hold it yet: 1 where they are mapped.
float key_root(const DarkAttention& shape, const DarkInputs& in);

// Fills query_draws, key_draws, bias, mapped_center, key_slope, keys, near_keys and mapped_queries
// of the cache.
void map_inputs(const DarkAttention& shape, const DarkInputs& in, DarkCache& cache);

// The inputs of the far field, on the cache's arrays.
FeatureAttentionInputs far_field_inputs(const DarkAttention& shape,
                                        const DarkInputs& in,
                                        const DarkCache& cache);

// dark_attention with the far field's state in and out (null: none).
std::size_t both_fields(const DarkAttention& shape,
                        const DarkInputs& in,
                        HeadsView<float> o,
                        DarkCache& cache,
                        bool record,
                        FeatureState* state);

}  // namespace darkformer::kernels
