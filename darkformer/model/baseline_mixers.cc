// Constant and random attention.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/baseline_mixers.h"

#include <ATen/ATen.h>

#include "darkformer/ops/random_attention.h"

namespace darkformer {

using at::Tensor;

namespace {

// The running means of v (B,G,T,D), given the sum of `before` values before it -> (B,H,T,D). In
// double: a float sum would drift.
Tensor running_means(const Tensor& v, const Tensor& sum, std::int64_t before, std::int64_t heads) {
  const Tensor sums = v.to(at::kDouble).cumsum(2) + sum.unsqueeze(2);
  const Tensor counts = at::arange(before + 1, before + v.size(2) + 1, at::kDouble).unsqueeze(1);
  return (sums / counts).to(v.scalar_type()).repeat_interleave(heads / v.size(1), 1);
}

Tensor no_values(const Tensor& v) {
  return at::zeros({v.size(0), v.size(1), v.size(3)},
                   v.options().dtype(at::kDouble).requires_grad(false));
}

}  // namespace

Tensor ConstantMixer::forward(const Tensor&, const Tensor&, const Tensor& v) {
  return running_means(v, no_values(v), 0, shape_.heads);
}

Tensor ConstantMixer::extend(const Tensor&, const Tensor&, const Tensor& v, MixerState& state) {
  const at::NoGradGuard no_gradients;
  if (state.tensors.empty()) {
    state.tensors = {no_values(v), at::zeros({1}, at::kLong)};
  }
  const Tensor out =
      running_means(v, state.tensors[0], state.tensors[1].item<std::int64_t>(), shape_.heads);
  state.tensors[0].add_(v.to(at::kDouble).sum(2));
  state.tensors[1].add_(v.size(2));
  return out;
}

std::int64_t ConstantMixer::state_bytes(std::int64_t) const {
  return shape_.kv_heads * shape_.head_dim * static_cast<std::int64_t>(sizeof(double)) +
         static_cast<std::int64_t>(sizeof(std::int64_t));
}

Tensor RandomMixer::mix(const Tensor& v, std::int64_t start) const {
  return ops::random_attention(
      v, {static_cast<std::int64_t>(seed_), shape_.layer, draw_index_, shape_.heads}, start);
}

Tensor RandomMixer::forward(const Tensor&, const Tensor&, const Tensor& v) {
  return mix(v, 0);
}

Tensor RandomMixer::extend(const Tensor&, const Tensor&, const Tensor& v, MixerState& state) {
  const at::NoGradGuard no_gradients;
  const std::int64_t before = state.tensors.empty() ? 0 : state.tensors[0].size(2);
  state.tensors = {before == 0 ? v.contiguous() : at::cat({state.tensors[0], v}, 2)};
  return mix(state.tensors[0], before);
}

std::int64_t RandomMixer::state_bytes(std::int64_t tokens) const {
  return shape_.kv_heads * tokens * shape_.head_dim * static_cast<std::int64_t>(sizeof(float));
}

void RandomMixer::redraw(std::uint64_t seed, std::int64_t draw_index) {
  seed_ = seed;
  draw_index_ = draw_index;
}

}  // namespace darkformer
