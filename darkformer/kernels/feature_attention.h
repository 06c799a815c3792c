// Linear attention over positive random features: the core that every feature-based kind of
// attention runs on.
// SPDX-License-Identifier: Apache-2.0
//
// For head h of batch b, with n = h N / H its parameter group (keys and values of heads n Hk / N
// and n Hv / N):
//   lq_tj = Wq_nj . (q_t - a_n) + bias_nj                base-2 logarithms of the query features
//   lk_sj = Wk_nj . k'_s + bias_nj + slope_n . k'_s - curve |k'_s|^2   and of the key features,
//                                                        with k' = k - c
//   w_ts  = 1/F sum_j 2^(lq_tj + lk_sj)
//   o_t   = sum_s w_ts v_s / sum_s w_ts                  over the keys s that t sees
//   log_z = ln sum_s w_ts                                natural; -inf where t sees no key
// Causal: t sees skip <= s <= t + (S - T) - delay; otherwise all s >= skip.
//
// Numerics (docs/numerics.md): logarithms are split into integer and fraction, shared scales are
// integers, so rescaling is exact and the outputs before a changed token keep their bits. A query
// feature below 2^-76 of its row's largest and a key feature below 2^-96 of the largest so far
// count as zero. A row whose products all vanish becomes the mean of the values it sees, and is
// counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "darkformer/base/aligned_buffer.h"
#include "darkformer/kernels/heads_view.h"

namespace darkformer::kernels {

struct FeatureAttentionInputs {
  std::size_t B = 0, H = 0, N = 0, T = 0, S = 0;  // H % N == 0
  std::size_t Dq = 0, Dk = 0, Dv = 0, F = 0;      // sizes of q, k, v rows; features
  std::size_t key_heads = 0, value_heads = 0;     // each divides N
  bool causal = true;
  std::size_t delay = 0, skip = 0;
  std::size_t chunk = 0;  // keys per block; 0 chooses

  HeadsView<const float> q, k, v;       // (B,H,T,Dq), (B,key_heads,S,Dk), (B,value_heads,S,Dv)
  const float* query_draws = nullptr;   // Wq (N,F,Dq), contiguous like all below
  const float* key_draws = nullptr;     // Wk (N,F,Dk)
  const float* query_center = nullptr;  // a (N,Dq) or null
  const float* key_center = nullptr;    // c (key_heads,Dk) or null
  const float* bias = nullptr;          // (N,F) or null
  const float* key_slope = nullptr;     // (N,Dk) or null
  float key_curve = 0.0F;
};

// Everything the past contributes: sums over the keys absorbed so far, in units of 2^scale.
struct FeatureState {
  float* sum = nullptr;        // S (B,N,F,Dv)
  float* weight = nullptr;     // z (B,N,F)
  float* scale = nullptr;      // (B,N): an integer; -inf before the first key
  float* value_sum = nullptr;  // (B,N,Dv): for rows whose products vanish
  std::int64_t absorbed = 0;   // keys in the sums
};

// One step of the walk over the keys: `keys` keys from key0, seen by as many queries from query0
// (or none).
struct FeatureBlock {
  std::size_t key0, keys, query0, queries;
  std::int32_t scale_before, scale;  // the running scale on entry, and the block's own
  std::size_t
      state;  // where the state on entry stands in FeatureCache::states (in units of `scale`)
  std::int64_t absorbed;  // keys in that state
};

// What the forward pass keeps for the backward pass, one entry per task of its own choosing.
struct FeatureCache {
  struct Task {
    std::vector<FeatureBlock> blocks;
    std::vector<float> states;  // per block with queries: S (F,Dv), z (F)
  };
  std::vector<Task> tasks;
  std::vector<float> den;  // (B,H,T): the normaliser of each row in the units of its block; 0 where
                           // the row fell back
};

struct FeatureAttentionOutputs {
  HeadsView<float> o;             // (B,H,T,Dv)
  float* log_z = nullptr;         // (B,H,T) contiguous, or null
  FeatureState* state = nullptr;  // in and out: read on entry if absorbed > 0, holds all absorbed
                                  // keys on return; or null
  FeatureCache* cache = nullptr;  // filled for the backward pass; or null
};

// Returns the number of rows that fell back to the mean of their values.
std::size_t feature_attention(const FeatureAttentionInputs& in, const FeatureAttentionOutputs& out);

struct FeatureAttentionGradients {
  HeadsView<const float> o, d_o;   // the forward's output and its gradient (B,H,T,Dv)
  const float* d_log_z = nullptr;  // (B,H,T) or null
  const FeatureCache* cache = nullptr;
  // All contiguous, overwritten; those of parameters may be null where not wanted. Key and value
  // gradients are per parameter group: the caller adds the groups that share a head.
  float* dq = nullptr;             // (B,H,T,Dq)
  float* dk = nullptr;             // (B,N,S,Dk)
  float* dv = nullptr;             // (B,N,S,Dv)
  float* d_query_draws = nullptr;  // (N,F,Dq)
  float* d_key_draws = nullptr;    // (N,F,Dk)
  float* d_bias = nullptr;         // (N,F)
  float* d_key_slope = nullptr;    // (N,Dk)
};

// Gradients of sum(o * d_o) + sum(log_z * d_log_z); the forward ran without a state on entry.
void feature_attention_backward(const FeatureAttentionInputs& in,
                                const FeatureAttentionGradients& grads);

}  // namespace darkformer::kernels
