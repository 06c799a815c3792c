// Dark attention forward: map the inputs, far field, near field, gate.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/dark_attention.h"

#include "darkformer/kernels/dark_mapping.h"
#include "darkformer/kernels/near_field.h"

namespace darkformer::kernels {

std::size_t both_fields(const DarkAttention& s,
                        const DarkInputs& in,
                        HeadsView<float> o,
                        DarkCache& cache,
                        bool record,
                        FeatureState* state) {
  map_inputs(s, in, cache);
  FeatureAttentionInputs far = far_field_inputs(s, in, cache);
  if (s.far_all && state != nullptr) {
    far.skip = s.S - s.T;  // the tokens that the state keeps whole are in its sums already
  }
  FeatureAttentionOutputs out;
  out.cache = record ? &cache.features : nullptr;
  out.state = state;
  if (!has_near_field(s)) {
    out.o = o;
    return feature_attention(far, out);
  }
  cache.o_far.resize(s.B * s.H * s.T * s.Dv);
  cache.log_z_far.resize(s.B * s.H * s.T);
  out.o = contiguous_heads(cache.o_far.data(), s.H, s.T, s.Dv);
  out.log_z = cache.log_z_far.data();
  const std::size_t fallback_rows = feature_attention(far, out);
  near_field(s, in, cache);
  join_fields(s, in, cache, o);
  return fallback_rows;
}

std::size_t dark_attention(const DarkAttention& s,
                           const DarkInputs& in,
                           HeadsView<float> o,
                           DarkCache& cache,
                           bool record) {
  return both_fields(s, in, o, cache, record, nullptr);
}

}  // namespace darkformer::kernels
