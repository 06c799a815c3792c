// Exact attention with its cache and its ring.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/exact_mixer.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "darkformer/ops/exact_attention.h"

namespace darkformer {

using at::Tensor;

Tensor ExactMixer::attend(const Tensor& q, const Tensor& k, const Tensor& v, bool causal) const {
  return ops::exact_attention(q, k, v,
                              {shape_.scale, causal, causal ? shape_.window : 0, shape_.softcap});
}

Tensor ExactMixer::forward(const Tensor& q, const Tensor& k, const Tensor& v) {
  return attend(q, k, v, true);
}

Tensor ExactMixer::extend(const Tensor& q, const Tensor& k, const Tensor& v, MixerState& state) {
  const at::NoGradGuard no_gradients;
  if (state.tensors.empty()) {
    const std::int64_t rows = shape_.window > 0 ? shape_.window : 0;
    const auto options = k.options().requires_grad(false);
    state.tensors = {at::zeros({k.size(0), k.size(1), rows, k.size(3)}, options),
                     at::zeros({v.size(0), v.size(1), rows, v.size(3)}, options),
                     at::zeros({1}, at::kLong)};
  }
  return shape_.window > 0 ? extend_ring(q, k, v, state) : extend_cache(q, k, v, state);
}

namespace {

// The same rows in a tensor of at least `rows` rows; twice as many as before, so that growing costs
// a constant per token.
Tensor grown(const Tensor& cache, std::int64_t used, std::int64_t rows) {
  if (rows <= cache.size(2)) {
    return cache;
  }
  constexpr std::int64_t kLeast = 64;
  const Tensor larger = at::zeros(
      {cache.size(0), cache.size(1), std::max({rows, 2 * cache.size(2), kLeast}), cache.size(3)},
      cache.options());
  larger.slice(2, 0, used).copy_(cache.slice(2, 0, used));
  return larger;
}

}  // namespace

Tensor ExactMixer::extend_cache(const Tensor& q,
                                const Tensor& k,
                                const Tensor& v,
                                MixerState& state) const {
  const std::int64_t used = state.tensors[2].item<std::int64_t>(), end = used + k.size(2);
  for (const auto& [i, fresh] : {std::pair<std::size_t, Tensor>{0, k}, {1, v}}) {
    state.tensors[i] = grown(state.tensors[i], used, end);
    state.tensors[i].slice(2, used, end).copy_(fresh);
  }
  state.tensors[2].fill_(end);
  return attend(q, state.tensors[0].slice(2, 0, end), state.tensors[1].slice(2, 0, end), true);
}

Tensor ExactMixer::extend_ring(const Tensor& q,
                               const Tensor& k,
                               const Tensor& v,
                               MixerState& state) const {
  const std::int64_t position = state.tensors[2].item<std::int64_t>(), T = k.size(2),
                     end = position + T;
  const std::int64_t held = std::min(position, shape_.window), kept = std::min(end, shape_.window);
  const auto slots = [&](std::int64_t from, std::int64_t to) {
    return at::arange(from, to, at::kLong).remainder(shape_.window);
  };
  // For one token the ring itself is what it sees, in any order; more tokens need the old rows
  // before the new ones.
  const bool single = T == 1;
  const Tensor before = slots(position - held, position);
  const Tensor keys = single ? Tensor() : at::cat({state.tensors[0].index_select(2, before), k}, 2);
  const Tensor values =
      single ? Tensor() : at::cat({state.tensors[1].index_select(2, before), v}, 2);
  const std::int64_t fresh = std::min(T, shape_.window);
  const Tensor to = slots(end - fresh, end);
  state.tensors[0].index_copy_(2, to, k.slice(2, T - fresh));
  state.tensors[1].index_copy_(2, to, v.slice(2, T - fresh));
  state.tensors[2].fill_(end);
  return single ? attend(q, state.tensors[0].slice(2, 0, kept), state.tensors[1].slice(2, 0, kept),
                         false)
                : attend(q, keys, values, true);
}

Tensor ExactMixer::extend_shared(const Tensor& q,
                                 const Tensor& k,
                                 const Tensor& v,
                                 const MixerState& before,
                                 const MixerState& after) {
  if (shape_.window > 0) {
    return Mixer::extend_shared(q, k, v, before, after);
  }
  const at::NoGradGuard no_gradients;
  const std::int64_t end = after.tensors[2].item<std::int64_t>();
  return attend(q, after.tensors[0].slice(2, 0, end), after.tensors[1].slice(2, 0, end), true);
}

std::int64_t ExactMixer::state_bytes(std::int64_t tokens) const {
  const std::int64_t rows = shape_.window > 0 ? shape_.window : tokens;
  return 2 * shape_.kv_heads * rows * shape_.head_dim * static_cast<std::int64_t>(sizeof(float)) +
         static_cast<std::int64_t>(sizeof(std::int64_t));
}

}  // namespace darkformer
