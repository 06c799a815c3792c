// The parts of feature attention, each alone: what the window does, what the far field does.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include "darkformer/model/feature_mixer.h"

namespace darkformer {

using at::Tensor;

namespace {

constexpr double kShut = 1e4;  // a bias of the gate whose sigmoid is 0 or 1 in float32

// The mean of the far values of every token: those of keys `sinks` to t - window; zero where there
// is none. v (B,G,T,D) -> (B,H,T,D). In double: a float sum would drift.
Tensor far_means(const Tensor& v, std::int64_t window, std::int64_t sinks, std::int64_t heads) {
  const std::int64_t T = v.size(2);
  Tensor means = at::zeros(v.sizes(), v.options().dtype(at::kDouble));
  const std::int64_t first = sinks + window;  // the first token that has a far key
  if (first < T) {
    const Tensor sums = v.slice(2, sinks, T - window).to(at::kDouble).cumsum(2);
    const Tensor counts = at::arange(1, T - first + 1, at::kDouble).unsqueeze(1);
    means.slice(2, first, T).copy_(sums / counts);
  }
  return means.to(v.scalar_type()).repeat_interleave(heads / v.size(1), 1);
}

}  // namespace

// The op with every gate at c = 0 and this bias.
Tensor FeatureMixer::with_gate(const Tensor& q,
                               const Tensor& k,
                               const Tensor& v,
                               double bias) const {
  ops::DarkOptions o = options(q);
  const Tensor row = at::tensor({0.0F, static_cast<float>(bias)});
  o.gate = row.expand({shape_.heads, 2}).contiguous();
  return ops::dark_attention(q, k, v, op_draws(), o);
}

Tensor FeatureMixer::with_constant_far(const Tensor& q, const Tensor& k, const Tensor& v) const {
  const bool all = spec_.far == FarKeys::kAll;
  const Tensor far = far_means(v, all ? 0 : spec_.window, all ? 0 : spec_.sinks, shape_.heads);
  if (spec_.window == 0 && spec_.sinks == 0) {
    return far;
  }
  const Tensor share = ops::dark_near_share(q, k, op_draws(), options(q));
  return share * with_gate(q, k, v, kShut) + (1.0 - share) * far;
}

Tensor FeatureMixer::forward_part(AttentionPart part,
                                  const Tensor& q,
                                  const Tensor& k,
                                  const Tensor& v) {
  const at::NoGradGuard no_gradients;
  const bool has_near = spec_.window > 0 || spec_.sinks > 0;
  switch (part) {
    case AttentionPart::kWindow:
      return has_near ? with_gate(q, k, v, kShut) : forward(q, k, v);
    case AttentionPart::kLinear: {
      ops::DarkOptions o = options(q);
      o.window = 0, o.sinks = 0, o.gate = {};
      return ops::dark_attention(q, k, v, op_draws(), o);
    }
    case AttentionPart::kConstantFar:
      return with_constant_far(q, k, v);
    default:
      return forward(q, k, v);
  }
}

}  // namespace darkformer
