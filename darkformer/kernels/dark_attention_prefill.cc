// Reading more tokens onto a state: the near keys it holds and the new ones form one stretch, the
// far sums go on.
// SPDX-License-Identifier: Apache-2.0
#include <cassert>

#include "darkformer/kernels/dark_attention.h"
#include "darkformer/kernels/dark_mapping.h"
#include "darkformer/kernels/dark_state.h"

namespace darkformer::kernels {

std::size_t dark_attention_prefill(const DarkAttention& shape,
                                   const DarkInputs& in,
                                   const DarkState& state,
                                   HeadsView<float> o) {
  assert(shape.causal && shape.T == shape.S);
  const std::int64_t position = *state.position;
  const Kept keys = kept_keys(shape, state), values = kept_values(shape, state);
  const std::vector<float> k = gather_tokens(shape, keys, in.k, position),
                           v = gather_tokens(shape, values, in.v, position);
  DarkAttention s = shape;
  s.S = k.size() / (s.B * s.G * s.D);
  DarkInputs extended = in;
  extended.k = contiguous_heads(k.data(), s.G, s.S, s.D);
  extended.v = contiguous_heads(v.data(), s.G, s.S, s.Dv);
  FeatureState far = {state.sum, state.weight, state.log_scale, state.value_sum,
                      absorbed_at(shape, position)};
  DarkCache cache;
  const std::size_t fallback_rows = both_fields(s, extended, o, cache, false, &far);
  keep_tokens(shape, keys, in.k, position);
  keep_tokens(shape, values, in.v, position);
  *state.position = position + static_cast<std::int64_t>(shape.T);
  return fallback_rows;
}

}  // namespace darkformer::kernels
