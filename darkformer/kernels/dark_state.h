// The tokens that a decode state keeps whole (window and sinks): reading them in order, and keeping
// new ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "darkformer/kernels/dark_attention.h"
#include "darkformer/kernels/dark_mapping.h"

namespace darkformer::kernels {

// One of the two arrays a state keeps by token, keys or values.
struct Kept {
  float *ring, *sinks;
  std::size_t size;  // of a row: D or Dv
};
inline Kept kept_keys(const DarkAttention& shape, const DarkState& state) {
  return {state.ring_k, state.sink_k, shape.D};
}
inline Kept kept_values(const DarkAttention& shape, const DarkState& state) {
  return {state.ring_v, state.sink_v, shape.Dv};
}

// Far keys in the sums after `position` tokens.
inline std::int64_t absorbed_at(const DarkAttention& shape, std::int64_t position) {
  const auto near = static_cast<std::int64_t>(far_delay(shape) + far_skip(shape));
  return position > near ? position - near : 0;
}

// (B,G,sinks kept + ring kept + T,size): the sinks that have left the ring, the ring in order, the
// T new tokens.
std::vector<float> gather_tokens(const DarkAttention& shape,
                                 const Kept& kept,
                                 HeadsView<const float> fresh,
                                 std::int64_t position);

// The T new tokens from `position` on enter the sinks and the ring.
void keep_tokens(const DarkAttention& shape,
                 const Kept& kept,
                 HeadsView<const float> fresh,
                 std::int64_t position);

}  // namespace darkformer::kernels
