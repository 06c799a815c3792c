// Near field through exact attention, and the gate.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/near_field.h"

#include <algorithm>
#include <cmath>

#include "darkformer/base/threads.h"
#include "darkformer/kernels/dark_mapping.h"
#include "darkformer/kernels/exact_attention.h"

namespace darkformer::kernels {
namespace {

// One call of exact attention: `heads` query heads from h0 and `groups` key heads from n0 (values
// from v0), queries [t0, t0 + T), keys [0, S) of the shape within.
struct NearCall {
  ExactAttention shape;
  std::size_t h0, n0, v0, t0;
  bool shared_values;  // all key heads of the call read value head v0
};

// Sinks alone are no window: the first queries see them causally, the rest see them all.
std::vector<ExactAttention> stages(const DarkAttention& s, std::vector<std::size_t>& starts) {
  ExactAttention whole;
  whole.T = s.T, whole.S = s.S, whole.causal = s.causal, whole.window = std::min(s.window, s.S),
  whole.sinks = std::min(s.sinks, s.S);
  if (s.window > 0) {
    starts = {0};
    return {whole};
  }
  whole.window = 0, whole.sinks = 0;
  const std::size_t sinks = std::min(s.sinks, s.S), past = s.S - std::min(s.S, s.T);
  const std::size_t early = s.causal ? std::min(s.T, sinks - std::min(sinks, past)) : 0;
  std::vector<ExactAttention> result;
  if (early > 0) {
    whole.T = early, whole.S = early + past;
    result.push_back(whole);
    starts.push_back(0);
  }
  if (early < s.T) {
    whole.T = s.T - early, whole.S = sinks, whole.causal = false;
    result.push_back(whole);
    starts.push_back(early);
  }
  return result;
}

// Sizes of the near field's own inputs: mapped keys are per parameter group.
struct NearSizes {
  NearSizes(const DarkAttention& s, const DarkInputs& in)
      : mapped(maps_near_field(s, in)), key_heads(mapped ? s.N : s.G), D(mapped ? s.R : s.D) {}
  bool mapped;
  std::size_t key_heads, D;
};

std::vector<NearCall> near_calls(const DarkAttention& s, const NearSizes& near) {
  const std::size_t key_heads = near.key_heads;
  // Groups that share a value head need a call for each value head.
  const std::size_t calls = key_heads == s.G ? 1 : s.G;
  std::vector<std::size_t> starts;
  const std::vector<ExactAttention> parts = stages(s, starts);
  std::vector<NearCall> result;
  for (std::size_t c = 0; c < calls; ++c) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      NearCall call = {parts[i], c * s.H / calls, c * key_heads / calls,
                       c,        starts[i],       key_heads != s.G};
      call.shape.B = s.B, call.shape.H = s.H / calls, call.shape.G = key_heads / calls;
      call.shape.D = near.D, call.shape.Dv = s.Dv;
      call.shape.scale = near.mapped ? std::sqrt(s.scale) : s.scale;
      result.push_back(call);
    }
  }
  return result;
}

template <class Value>
HeadsView<Value> from(HeadsView<Value> view, std::size_t head, std::size_t time) {
  view.data = view.row(0, head, time);
  return view;
}

AttentionInputs call_inputs(const DarkAttention& s,
                            const DarkInputs& in,
                            const DarkCache& cache,
                            const NearSizes& near,
                            const NearCall& call) {
  const std::vector<float>& keys = near.mapped ? cache.keys : cache.near_keys;
  AttentionInputs inputs;
  inputs.q =
      from(near.mapped ? contiguous_heads<const float>(cache.mapped_queries.data(), s.H, s.T, s.R)
                       : in.q,
           call.h0, call.t0);
  inputs.k =
      from(contiguous_heads<const float>(keys.data(), near.key_heads, s.S, near.D), call.n0, 0);
  inputs.v = from(in.v, call.v0, 0);
  if (call.shared_values) {
    inputs.v.head = 0;
  }
  return inputs;
}

// to (B,key heads,S,D) += part (B,heads,rows,D), the heads of a call.
void add_key_gradients(const DarkAttention& s,
                       const NearSizes& near,
                       const NearCall& call,
                       const std::vector<float>& part,
                       std::size_t D,
                       std::vector<float>& to) {
  for (std::size_t b = 0; b < s.B; ++b) {
    for (std::size_t i = 0; i < call.shape.G; ++i) {
      const float* source = &part[(b * call.shape.G + i) * call.shape.S * D];
      float* target = &to[(b * near.key_heads + call.n0 + i) * s.S * D];
      for (std::size_t j = 0; j < call.shape.S * D; ++j) {
        target[j] += source[j];
      }
    }
  }
}

float norm_squared(const float* x, std::size_t count) {
  float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < count; ++i) {
    sum += x[i] * x[i];
  }
  return sum;
}

struct GatePoint {
  float slope, argument, share;
};

const float* gate_of(const DarkAttention& s, const DarkParameters& p, std::size_t row) {
  static constexpr float kCommonNormaliser[2] = {1.0F, 0.0F};
  if (p.gate == nullptr) {
    return kCommonNormaliser;
  }
  return p.gate + 2 * (p.gate_per_token ? row : row / s.T % s.H);
}

// The share of the near field. A field without a key, or whose sums vanished, has none.
GatePoint gate_point(const float* gate, float log_near, float log_far) {
  if (std::isinf(log_far)) {
    return {gate[0], 0.0F, 1.0F};
  }
  if (std::isinf(log_near)) {
    return {gate[0], 0.0F, 0.0F};
  }
  const float argument = gate[0] * (log_near - log_far) + gate[1];
  return {gate[0], argument, 1.0F / (1.0F + std::exp(-argument))};
}

}  // namespace

void near_field(const DarkAttention& s, const DarkInputs& in, DarkCache& cache) {
  cache.o_near.resize(s.B * s.H * s.T * s.Dv);
  cache.log_z_near.resize(s.B * s.H * s.T);
  const auto o = contiguous_heads(cache.o_near.data(), s.H, s.T, s.Dv);
  const auto lse = contiguous_heads(cache.log_z_near.data(), s.H, s.T, 1);
  const NearSizes near(s, in);
  for (const NearCall& call : near_calls(s, near)) {
    exact_attention(call.shape, call_inputs(s, in, cache, near, call),
                    {from(o, call.h0, call.t0), from(lse, call.h0, call.t0)});
  }
}

void near_field_backward(const DarkAttention& s,
                         const DarkInputs& in,
                         const DarkCache& cache,
                         const std::vector<float>& d_o,
                         const std::vector<float>& d_log_z,
                         NearGradients& gradients) {
  const NearSizes near(s, in);
  gradients.queries.assign(s.B * s.H * s.T * near.D, 0.0F);
  gradients.keys.assign(s.B * near.key_heads * s.S * near.D, 0.0F);
  gradients.values.assign(s.B * near.key_heads * s.S * s.Dv, 0.0F);
  const auto view = [&](const std::vector<float>& x, std::size_t D, const NearCall& call) {
    return from(contiguous_heads<const float>(x.data(), s.H, s.T, D), call.h0, call.t0);
  };
  for (const NearCall& call : near_calls(s, near)) {
    const std::size_t heads = call.shape.G, keys = call.shape.S;
    std::vector<float> dk(s.B * heads * keys * near.D), dv(s.B * heads * keys * s.Dv);
    exact_attention_backward(
        call.shape, call_inputs(s, in, cache, near, call),
        {view(cache.o_near, s.Dv, call), view(cache.log_z_near, 1, call), view(d_o, s.Dv, call),
         view(d_log_z, 1, call)},
        {from(contiguous_heads(gradients.queries.data(), s.H, s.T, near.D), call.h0, call.t0),
         contiguous_heads(dk.data(), heads, keys, near.D),
         contiguous_heads(dv.data(), heads, keys, s.Dv)});
    add_key_gradients(s, near, call, dk, near.D, gradients.keys);
    add_key_gradients(s, near, call, dv, s.Dv, gradients.values);
  }
}

void mapped_query(const DarkAttention& s,
                  const DarkInputs& in,
                  const DarkCache& cache,
                  std::size_t b,
                  std::size_t h,
                  std::size_t t,
                  float* u) {
  const std::size_t n = h * s.N / s.H;
  const float root = std::sqrt(s.scale);
  const bool mapped = in.parameters.factor != nullptr;
  const float* q =
      mapped ? &cache.mapped_queries[((b * s.H + h) * s.T + t) * s.R] : in.q.row(b, h, t);
  const std::ptrdiff_t element = mapped ? 1 : in.q.element;
  for (std::size_t r = 0; r < s.R; ++r) {
    u[r] = root * q[static_cast<std::ptrdiff_t>(r) * element] - cache.mapped_center[n * s.R + r];
  }
}

void join_fields(const DarkAttention& s,
                 const DarkInputs& in,
                 DarkCache& cache,
                 HeadsView<float> o) {
  parallel_for(s.B * s.H, [&](std::size_t bh) {
    std::vector<float> u(s.R);
    for (std::size_t t = 0; t < s.T; ++t) {
      const std::size_t row = bh * s.T + t;
      if (s.softmax_features) {
        cache.log_z_far[row] += std::log(static_cast<float>(s.F));  // a sum, not a mean
      } else {
        mapped_query(s, in, cache, bh / s.H, bh % s.H, t, u.data());
        cache.log_z_far[row] -= 0.5F * norm_squared(u.data(), s.R);
      }
      const GatePoint gate =
          gate_point(gate_of(s, in.parameters, row), cache.log_z_near[row], cache.log_z_far[row]);
      float* to = o.row(bh / s.H, bh % s.H, t);
      for (std::size_t d = 0; d < s.Dv; ++d) {
        const float near = cache.o_near[row * s.Dv + d], far = cache.o_far[row * s.Dv + d];
        to[static_cast<std::ptrdiff_t>(d) * o.element] =
            gate.share * near + (1.0F - gate.share) * far;
      }
    }
  });
}

JoinGradients join_fields_backward(const DarkAttention& s,
                                   const DarkInputs& in,
                                   const DarkCache& cache,
                                   HeadsView<const float> d_o) {
  const std::size_t rows = s.B * s.H * s.T;
  JoinGradients g;
  g.d_o_near.resize(rows * s.Dv);
  g.d_o_far.resize(rows * s.Dv);
  g.d_log_near.assign(rows, 0.0F);
  g.d_log_far.assign(rows, 0.0F);
  std::vector<float> per_row(rows * 2, 0.0F);
  parallel_for(s.B * s.H, [&](std::size_t bh) {
    for (std::size_t row = bh * s.T; row < (bh + 1) * s.T; ++row) {
      const float* out = d_o.row(bh / s.H, bh % s.H, row - bh * s.T);
      const GatePoint gate =
          gate_point(gate_of(s, in.parameters, row), cache.log_z_near[row], cache.log_z_far[row]);
      float d_share = 0.0F;
      for (std::size_t d = 0; d < s.Dv; ++d) {
        const float gradient = out[static_cast<std::ptrdiff_t>(d) * d_o.element];
        d_share += gradient * (cache.o_near[row * s.Dv + d] - cache.o_far[row * s.Dv + d]);
        g.d_o_near[row * s.Dv + d] = gate.share * gradient;
        g.d_o_far[row * s.Dv + d] = (1.0F - gate.share) * gradient;
      }
      if (std::isinf(cache.log_z_near[row]) || std::isinf(cache.log_z_far[row])) {
        continue;
      }
      const float d_argument = d_share * gate.share * (1.0F - gate.share);
      g.d_log_near[row] = gate.slope * d_argument;
      g.d_log_far[row] = -gate.slope * d_argument;
      per_row[row * 2] = d_argument * (cache.log_z_near[row] - cache.log_z_far[row]);
      per_row[row * 2 + 1] = d_argument;
    }
  });
  if (in.parameters.gate_per_token) {
    g.d_gate = std::move(per_row);
    return g;
  }
  g.d_gate.assign(s.H * 2, 0.0F);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t h = row / s.T % s.H;
    g.d_gate[h * 2] += per_row[row * 2];
    g.d_gate[h * 2 + 1] += per_row[row * 2 + 1];
  }
  return g;
}

}  // namespace darkformer::kernels
