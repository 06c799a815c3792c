// Dark attention backward: the gate, the near field and the far field, then the arguments.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "darkformer/base/threads.h"
#include "darkformer/kernels/dark_attention.h"
#include "darkformer/kernels/dark_field_gradients.h"
#include "darkformer/kernels/dark_mapping.h"

namespace darkformer::kernels {
namespace {

float* wanted(std::vector<float>& x) {
  return x.empty() ? nullptr : x.data();
}

void far_field_backward(const DarkAttention& s,
                        const DarkInputs& in,
                        const DarkCache& cache,
                        HeadsView<const float> o,
                        HeadsView<const float> d_o,
                        const float* d_log_z,
                        FieldGradients& g) {
  feature_attention_backward(
      far_field_inputs(s, in, cache),
      {o, d_o, d_log_z, &cache.features, g.queries, g.keys, g.values, wanted(g.query_draws),
       wanted(g.key_draws), wanted(g.bias), wanted(g.center)});
  // slope = log2(e) r m
  for (float& center : g.center) {
    center *= kLog2E * key_root(s, in);
  }
}

// log Zf holds -|u_q|^2 / 2: near += -r d_log_far u_q, and the same summed for the centre.
void norm_backward(const DarkAttention& s,
                   const DarkInputs& in,
                   const DarkCache& cache,
                   const std::vector<float>& d_log_far,
                   FieldGradients& g) {
  const float root = std::sqrt(s.scale);
  std::vector<float> sums(s.B * s.H * s.R, 0.0F);
  parallel_for(s.B * s.H, [&](std::size_t bh) {
    std::vector<float> u(s.R);
    for (std::size_t t = 0; t < s.T; ++t) {
      mapped_query(s, in, cache, bh / s.H, bh % s.H, t, u.data());
      for (std::size_t r = 0; r < s.R; ++r) {
        const float gradient = -root * d_log_far[bh * s.T + t] * u[r];
        g.near[(bh * s.T + t) * s.R + r] += gradient;
        sums[bh * s.R + r] += gradient;
      }
    }
  });
  g.norm.assign(s.N * s.R, 0.0F);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    g.norm[i / s.R % s.H * s.N / s.H * s.R + i % s.R] += sums[i];
  }
}

FieldGradients fields_backward(const DarkAttention& s,
                               const DarkInputs& in,
                               const DarkCache& cache,
                               HeadsView<const float> o,
                               HeadsView<const float> d_o,
                               const DarkGradients& out) {
  FieldGradients g(s, in, out);
  if (!has_near_field(s)) {
    far_field_backward(s, in, cache, o, d_o, nullptr, g);
    return g;
  }
  JoinGradients join = join_fields_backward(s, in, cache, d_o);
  far_field_backward(
      s, in, cache, contiguous_heads<const float>(cache.o_far.data(), s.H, s.T, s.Dv),
      contiguous_heads<const float>(join.d_o_far.data(), s.H, s.T, s.Dv), join.d_log_far.data(), g);
  NearGradients near;
  near_field_backward(s, in, cache, join.d_o_near, join.d_log_near, near);
  if (maps_near_field(s, in)) {
    add(near.keys, g.keys);
    add(near.values, g.values);
    g.near = std::move(near.queries);
  } else {
    g.near.assign(s.B * s.H * s.T * s.R, 0.0F);
    g.direct = std::move(near);
  }
  if (!s.softmax_features) {
    norm_backward(s, in, cache, join.d_log_far, g);
  }
  g.gate = std::move(join.d_gate);
  return g;
}

}  // namespace

void dark_attention_backward(const DarkAttention& s,
                             const DarkInputs& in,
                             HeadsView<const float> o,
                             HeadsView<const float> d_o,
                             const DarkCache& cache,
                             const DarkGradients& out) {
  FieldGradients g = fields_backward(s, in, cache, o, d_o, out);
  arguments_backward(s, in, cache, out, g);
  if (out.d_gate != nullptr) {
    std::copy(g.gate.begin(), g.gate.end(), out.d_gate);
  }
}

}  // namespace darkformer::kernels
