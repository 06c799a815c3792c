// Folding of maps, centres, scale and weights.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/dark_mapping.h"

#include <algorithm>
#include <cmath>

#include "darkformer/base/threads.h"
#include "darkformer/kernels/gemm.h"
#include "darkformer/kernels/softmax_features.h"

namespace darkformer::kernels {
namespace {

// query_draws <- r log2(e) draws Mq, key_draws <- log2(e) draws; without a factor both are r
// log2(e) draws.
void fold_draws(const DarkAttention& s, const DarkParameters& p, DarkCache& cache) {
  const float root = std::sqrt(s.scale);
  cache.query_draws.resize(s.N * s.F * s.D);
  if (p.factor == nullptr) {
    std::transform(p.draws, p.draws + s.N * s.F * s.D, cache.query_draws.begin(),
                   [&](float w) { return root * kLog2E * w; });
    cache.key_draws = cache.query_draws;
    return;
  }
  cache.key_draws.resize(s.N * s.F * s.R);
  std::transform(p.draws, p.draws + s.N * s.F * s.R, cache.key_draws.begin(),
                 [](float w) { return kLog2E * w; });
  gemm_batch({.m = s.F,
              .n = s.D,
              .k = s.R,
              .a = p.draws,
              .lda = s.R,
              .b = p.factor,
              .ldb = s.D,
              .c = cache.query_draws.data(),
              .ldc = s.D,
              .alpha = root * kLog2E},
             {.count = s.N, .stride_a = s.F * s.R, .stride_b = s.R * s.D, .stride_c = s.F * s.D});
}

// m <- r Mq a
void map_center(const DarkAttention& s, const DarkParameters& p, DarkCache& cache) {
  cache.mapped_center.assign(s.N * s.R, 0.0F);
  if (p.query_center == nullptr) {
    return;
  }
  const float root = std::sqrt(s.scale);
  for (std::size_t n = 0; n < s.N; ++n) {
    const float* a = p.query_center + n * s.D;
    for (std::size_t r = 0; r < s.R; ++r) {
      double sum = 0.0;
      for (std::size_t d = 0; d < s.D; ++d) {
        sum += static_cast<double>(p.factor == nullptr ? (d == r ? 1.0F : 0.0F)
                                                       : p.factor[(n * s.R + r) * s.D + d]) *
               a[d];
      }
      cache.mapped_center[n * s.R + r] = root * static_cast<float>(sum);
    }
  }
}

// keys <- r Mk (k - b) per group; near_keys <- k - b per kv head, where the near field sees them
// so.
void map_keys(const DarkAttention& s, const DarkInputs& in, DarkCache& cache) {
  const DarkParameters& p = in.parameters;
  const bool near = has_near_field(s) && !maps_near_field(s, in);
  if (p.factor == nullptr && !near) {
    return;  // the far field reads and centres them itself
  }
  std::vector<float> centred(s.B * s.G * s.S * s.D);
  copy_centred(in.k, s.B, s.G, s.S, s.D, p.key_center, s.G, centred.data());
  if (p.factor == nullptr) {
    cache.near_keys = std::move(centred);
    return;
  }
  cache.keys.resize(s.B * s.N * s.S * s.R);
  const float* map = p.key_factor == nullptr ? p.factor : p.key_factor;
  for_each_product(s.B * s.N, [&](std::size_t i) {
    const std::size_t b = i / s.N, n = i % s.N;
    gemm({.m = s.S,
          .n = s.R,
          .k = s.D,
          .a = &centred[(b * s.G + key_head(s, n)) * s.S * s.D],
          .lda = s.D,
          .b = map + n * s.R * s.D,
          .ldb = s.D,
          .trans_b = true,
          .c = &cache.keys[i * s.S * s.R],
          .ldc = s.R,
          .alpha = std::sqrt(s.scale)});
  });
  if (near) {
    cache.near_keys = std::move(centred);
  }
}

// All that softmax features need; near keys as they are.
void map_softmax_features(const DarkAttention& s, const DarkInputs& in, DarkCache& cache) {
  softmax_features(s, softmax_queries(s, in), cache.queries, cache.query_draws);
  softmax_features(s, softmax_keys(s, in), cache.keys, cache.key_draws);
  if (has_near_field(s)) {
    cache.near_keys.resize(s.B * s.G * s.S * s.D);
    copy_centred(in.k, s.B, s.G, s.S, s.D, nullptr, s.G, cache.near_keys.data());
  }
}

// mapped_queries <- Mq q
void map_queries(const DarkAttention& s, const DarkInputs& in, DarkCache& cache) {
  std::vector<float> q(s.B * s.H * s.T * s.D);
  copy_centred(in.q, s.B, s.H, s.T, s.D, nullptr, 1, q.data());
  cache.mapped_queries.resize(s.B * s.H * s.T * s.R);
  for_each_product(s.B * s.H, [&](std::size_t i) {
    const std::size_t n = i % s.H * s.N / s.H;
    gemm({.m = s.T,
          .n = s.R,
          .k = s.D,
          .a = &q[i * s.T * s.D],
          .lda = s.D,
          .b = in.parameters.factor + n * s.R * s.D,
          .ldb = s.D,
          .trans_b = true,
          .c = &cache.mapped_queries[i * s.T * s.R],
          .ldc = s.R});
  });
}

}  // namespace

void for_each_product(std::size_t count, const std::function<void(std::size_t)>& body) {
  if (count >= static_cast<std::size_t>(threads())) {
    parallel_for(count, body);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    body(i);
  }
}

void copy_centred(HeadsView<const float> x,
                  std::size_t B,
                  std::size_t heads,
                  std::size_t rows,
                  std::size_t D,
                  const float* center,
                  std::size_t groups,
                  float* out) {
  parallel_for(B * heads, [&](std::size_t i) {
    const std::size_t h = i % heads;
    const float* shift = center == nullptr ? nullptr : center + h * groups / heads * D;
    for (std::size_t t = 0; t < rows; ++t) {
      const float* from = x.row(i / heads, h, t);
      float* to = out + (i * rows + t) * D;
      for (std::size_t d = 0; d < D; ++d) {
        to[d] =
            from[static_cast<std::ptrdiff_t>(d) * x.element] - (shift == nullptr ? 0.0F : shift[d]);
      }
    }
  });
}

float key_root(const DarkAttention& shape, const DarkInputs& in) {
  return in.parameters.factor == nullptr ? std::sqrt(shape.scale) : 1.0F;
}

void map_inputs(const DarkAttention& shape, const DarkInputs& in, DarkCache& cache) {
  const DarkParameters& p = in.parameters;
  if (shape.softmax_features) {
    map_softmax_features(shape, in, cache);
    return;
  }
  fold_draws(shape, p, cache);
  map_center(shape, p, cache);
  cache.bias.assign(shape.N * shape.F, 0.0F);
  if (p.log_weights != nullptr) {
    std::transform(p.log_weights, p.log_weights + shape.N * shape.F, cache.bias.begin(),
                   [](float w) { return 0.5F * kLog2E * w; });
  }
  map_keys(shape, in, cache);
  cache.key_slope.resize(shape.N * shape.R);
  std::transform(cache.mapped_center.begin(), cache.mapped_center.end(), cache.key_slope.begin(),
                 [&](float m) { return kLog2E * key_root(shape, in) * m; });
  if (p.factor != nullptr && has_near_field(shape)) {
    map_queries(shape, in, cache);
  }
}

FeatureAttentionInputs far_field_inputs(const DarkAttention& s,
                                        const DarkInputs& in,
                                        const DarkCache& cache) {
  const bool mapped = in.parameters.factor != nullptr;
  FeatureAttentionInputs far;
  far.B = s.B, far.H = s.H, far.N = s.N, far.T = s.T, far.S = s.S;
  far.Dq = s.D, far.Dk = s.R, far.Dv = s.Dv, far.F = s.F;
  far.key_heads = mapped ? s.N : s.G, far.value_heads = s.G;
  far.causal = s.causal, far.delay = std::min(far_delay(s), s.S),
  far.skip = std::min(far_skip(s), s.S), far.chunk = s.chunk;
  far.q = in.q, far.v = in.v;
  far.query_draws = cache.query_draws.data(), far.key_draws = cache.key_draws.data();
  if (s.softmax_features) {
    far.Dq = far.Dk = softmax_row(s);
    far.q = contiguous_heads<const float>(cache.queries.data(), s.H, s.T, far.Dq);
    far.k = contiguous_heads<const float>(cache.keys.data(), s.N, s.S, far.Dk);
    return far;
  }
  if (mapped) {
    far.k = contiguous_heads<const float>(cache.keys.data(), s.N, s.S, s.R);
  } else {
    far.k = in.k, far.key_center = in.parameters.key_center;
  }
  far.query_center = in.parameters.query_center;
  far.bias = cache.bias.data();
  // offset <- log2(e) (m . u - |u|^2 / 2) with u = r (k - b), or the mapped key
  const float root = key_root(s, in);
  far.key_slope = cache.key_slope.data(), far.key_curve = 0.5F * kLog2E * root * root;
  return far;
}

}  // namespace darkformer::kernels
