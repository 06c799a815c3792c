// From the gradients of the fields through maps, centres and draws to those of the arguments.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "darkformer/base/threads.h"
#include "darkformer/kernels/dark_field_gradients.h"
#include "darkformer/kernels/dark_mapping.h"
#include "darkformer/kernels/gemm.h"

namespace darkformer::kernels {
namespace {

// to (B,G,...) <- the sum over the groups of each kv head of from (B,N,...)
void add_groups(const DarkAttention& s,
                const std::vector<float>& from,
                std::size_t count,
                float* to) {
  if (from.empty()) {
    return;  // they are there already
  }
  std::fill(to, to + s.B * s.G * count, 0.0F);
  parallel_for(s.B * s.G, [&](std::size_t bg) {
    const std::size_t shared = s.N / s.G, first = bg / s.G * s.N + bg % s.G * shared;
    for (std::size_t n = first; n < first + shared; ++n) {
      for (std::size_t i = 0; i < count; ++i) {
        to[bg * count + i] += from[n * count + i];
      }
    }
  });
}

// center (groups,D) <- sign * sum over batches, heads of the group and time of x (B,heads,rows,D);
// added to what is there.
void add_rows(const float* x,
              std::size_t B,
              std::size_t heads,
              std::size_t rows,
              std::size_t D,
              std::size_t groups,
              float sign,
              float* center) {
  for (std::size_t i = 0; i < B * heads; ++i) {
    std::vector<double> sum(D, 0.0);
    for (std::size_t t = 0; t < rows; ++t) {
      for (std::size_t d = 0; d < D; ++d) {
        sum[d] += x[(i * rows + t) * D + d];
      }
    }
    for (std::size_t d = 0; d < D; ++d) {
      center[i % heads * groups / heads * D + d] += sign * static_cast<float>(sum[d]);
    }
  }
}

// Without a factor: everything is in the units of q and k already.
void arguments_without_factor(const DarkAttention& s, const DarkGradients& out, FieldGradients& g) {
  const float root = std::sqrt(s.scale);
  if (out.d_query_center != nullptr) {
    std::fill(out.d_query_center, out.d_query_center + s.N * s.D, 0.0F);
    add_rows(g.queries, s.B, s.H, s.T, s.D, s.N, -1.0F, out.d_query_center);
    for (std::size_t i = 0; i < s.N * s.D; ++i) {
      out.d_query_center[i] += root * g.center[i] - (g.norm.empty() ? 0.0F : g.norm[i]);
    }
  }
  add(g.near, out.dq);
  add_groups(s, g.own_keys, s.S * s.D, out.dk);
  if (out.d_draws != nullptr) {
    for (std::size_t i = 0; i < s.N * s.F * s.D; ++i) {
      out.d_draws[i] = root * kLog2E * (g.query_draws[i] + g.key_draws[i]);
    }
  }
}

// With a factor: back through Mq (queries, centre, draws) and Mk (keys).
class FactorBackward {
 public:
  FactorBackward(const DarkAttention& shape,
                 const DarkInputs& inputs,
                 const DarkGradients& gradients,
                 FieldGradients& fields)
      : s(shape),
        in(inputs),
        p(in.parameters),
        out(gradients),
        g(fields),
        root(std::sqrt(s.scale)),
        wants_query_map(out.d_factor != nullptr),
        wants_key_map((p.key_factor == nullptr ? out.d_factor : out.d_key_factor) != nullptr),
        d_factor(wants_query_map ? s.N * s.R * s.D : 0, 0.0F),
        d_key_factor(wants_key_map ? s.N * s.R * s.D : 0, 0.0F) {}

  void run() {
    center();  // before queries() adds the near field to dq
    queries();
    draws();
    keys();
    if (p.key_factor == nullptr) {
      std::transform(d_key_factor.begin(), d_key_factor.end(), d_factor.begin(), d_factor.begin(),
                     std::plus<>());
    } else {
      std::copy(d_key_factor.begin(), d_key_factor.end(), out.d_key_factor);
    }
    std::copy(d_factor.begin(), d_factor.end(), out.d_factor);
  }

 private:
  // dq <- dq + Mq^T near, dMq += near^T q
  void queries() {
    if (g.near.empty()) {
      return;
    }
    std::vector<float> q(s.B * s.H * s.T * s.D);
    copy_centred(in.q, s.B, s.H, s.T, s.D, nullptr, 1, q.data());
    for_each_product(s.B * s.H, [&](std::size_t i) {
      const float* map = p.factor + i % s.H * s.N / s.H * s.R * s.D;
      gemm({.m = s.T,
            .n = s.D,
            .k = s.R,
            .a = &g.near[i * s.T * s.R],
            .lda = s.R,
            .b = map,
            .ldb = s.D,
            .c = out.dq + i * s.T * s.D,
            .ldc = s.D,
            .beta = 1.0F});
    });
    if (!wants_query_map) {
      return;
    }
    for_each_product(s.N, [&](std::size_t n) {
      for (std::size_t b = 0; b < s.B; ++b) {
        for (std::size_t h = n * s.H / s.N; h < (n + 1) * s.H / s.N; ++h) {
          const std::size_t i = b * s.H + h;
          gemm({.m = s.R,
                .n = s.D,
                .k = s.T,
                .a = &g.near[i * s.T * s.R],
                .lda = s.R,
                .trans_a = true,
                .b = &q[i * s.T * s.D],
                .ldb = s.D,
                .c = &d_factor[n * s.R * s.D],
                .ldc = s.D,
                .beta = 1.0F});
        }
      }
    });
  }

  // m = r Mq a, and q - a under Mq in |u_q|^2: with x = r d_m - norm, da <- Mq^T x - far queries,
  // dMq += x a^T
  void center() {
    if (p.query_center == nullptr) {
      return;
    }
    std::vector<float> da(s.N * s.D, 0.0F);
    add_rows(g.queries, s.B, s.H, s.T, s.D, s.N, -1.0F, da.data());
    for (std::size_t n = 0; n < s.N; ++n) {
      for (std::size_t r = 0; r < s.R; ++r) {
        const float x =
            root * g.center[n * s.R + r] - (g.norm.empty() ? 0.0F : g.norm[n * s.R + r]);
        for (std::size_t d = 0; d < s.D; ++d) {
          da[n * s.D + d] += p.factor[(n * s.R + r) * s.D + d] * x;
          if (wants_query_map) {
            d_factor[(n * s.R + r) * s.D + d] += x * p.query_center[n * s.D + d];
          }
        }
      }
    }
    if (out.d_query_center != nullptr) {
      std::copy(da.begin(), da.end(), out.d_query_center);
    }
  }

  // query_draws = r log2(e) w Mq, key_draws = log2(e) w
  void draws() {
    if (g.query_draws.empty()) {
      return;
    }
    const float unit = root * kLog2E;
    if (wants_query_map) {
      gemm_batch(
          {.m = s.R,
           .n = s.D,
           .k = s.F,
           .a = p.draws,
           .lda = s.R,
           .trans_a = true,
           .b = g.query_draws.data(),
           .ldb = s.D,
           .c = d_factor.data(),
           .ldc = s.D,
           .alpha = unit,
           .beta = 1.0F},
          {.count = s.N, .stride_a = s.F * s.R, .stride_b = s.F * s.D, .stride_c = s.R * s.D});
    }
    if (out.d_draws == nullptr) {
      return;
    }
    std::transform(g.key_draws.begin(), g.key_draws.end(), out.d_draws,
                   [](float x) { return kLog2E * x; });
    gemm_batch({.m = s.F,
                .n = s.R,
                .k = s.D,
                .a = g.query_draws.data(),
                .lda = s.D,
                .b = p.factor,
                .ldb = s.D,
                .trans_b = true,
                .c = out.d_draws,
                .ldc = s.R,
                .alpha = unit,
                .beta = 1.0F},
               {.count = s.N, .stride_a = s.F * s.D, .stride_b = s.R * s.D, .stride_c = s.F * s.R});
  }

  // u_k = r Mk (k - b)
  void keys() {
    const float* map = p.key_factor == nullptr ? p.factor : p.key_factor;
    std::vector<float> dk(s.B * s.N * s.S * s.D);
    for_each_product(s.B * s.N, [&](std::size_t i) {
      gemm({.m = s.S,
            .n = s.D,
            .k = s.R,
            .a = &g.keys[i * s.S * s.R],
            .lda = s.R,
            .b = map + i % s.N * s.R * s.D,
            .ldb = s.D,
            .c = &dk[i * s.S * s.D],
            .ldc = s.D,
            .alpha = root});
    });
    add_groups(s, dk, s.S * s.D, out.dk);
    if (wants_key_map) {
      key_map();
    }
  }

  // dMk += r du_k (k - b)^T
  void key_map() {
    std::vector<float> centred(s.B * s.G * s.S * s.D);
    copy_centred(in.k, s.B, s.G, s.S, s.D, p.key_center, s.G, centred.data());
    for_each_product(s.N, [&](std::size_t n) {
      for (std::size_t b = 0; b < s.B; ++b) {
        gemm({.m = s.R,
              .n = s.D,
              .k = s.S,
              .a = &g.keys[(b * s.N + n) * s.S * s.R],
              .lda = s.R,
              .trans_a = true,
              .b = &centred[(b * s.G + key_head(s, n)) * s.S * s.D],
              .ldb = s.D,
              .c = &d_key_factor[n * s.R * s.D],
              .ldc = s.D,
              .alpha = root,
              .beta = 1.0F});
      }
    });
  }

  const DarkAttention& s;
  const DarkInputs& in;
  const DarkParameters& p;
  const DarkGradients& out;
  FieldGradients& g;
  float root;
  bool wants_query_map, wants_key_map;
  std::vector<float> d_factor, d_key_factor;  // empty where not wanted
};

// Softmax features: both sides are maps of their own.
void arguments_of_softmax(const DarkAttention& s,
                          const DarkInputs& in,
                          const DarkCache& cache,
                          const DarkGradients& out,
                          const FieldGradients& g) {
  softmax_features_backward(s, softmax_queries(s, in), cache.queries, g.own_queries, g.query_draws,
                            out.dq, out.d_factor);
  std::vector<float> dk(s.B * s.N * s.S * s.D);
  softmax_features_backward(s, softmax_keys(s, in), cache.keys, g.own_keys, g.key_draws, dk.data(),
                            out.d_key_factor);
  add_groups(s, dk, s.S * s.D, out.dk);
}

}  // namespace

void arguments_backward(const DarkAttention& s,
                        const DarkInputs& in,
                        const DarkCache& cache,
                        const DarkGradients& out,
                        FieldGradients& g) {
  if (s.softmax_features) {
    arguments_of_softmax(s, in, cache, out, g);
  } else if (in.parameters.factor == nullptr) {
    arguments_without_factor(s, out, g);
  } else {
    FactorBackward(s, in, out, g).run();
  }
  add_groups(s, g.own_values, s.S * s.Dv, out.dv);
  add(g.direct.queries, out.dq);
  add(g.direct.keys, out.dk);
  add(g.direct.values, out.dv);
  if (out.d_log_weights != nullptr) {
    std::transform(g.bias.begin(), g.bias.end(), out.d_log_weights,
                   [](float x) { return 0.5F * kLog2E * x; });
  }
  if (out.d_key_center != nullptr) {
    std::fill(out.d_key_center, out.d_key_center + s.G * s.D, 0.0F);
    add_rows(out.dk, s.B, s.G, s.S, s.D, s.G, -1.0F, out.d_key_center);
  }
}

}  // namespace darkformer::kernels
