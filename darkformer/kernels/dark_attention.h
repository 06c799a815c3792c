// Data-aware random-feature attention on plain pointers: linear-time exp(q^T Sigma k) with an
// optional exact near field.
// SPDX-License-Identifier: Apache-2.0
//
// With r = sqrt(scale), maps Mq = factor, Mk = key_factor (default: factor; no factor: identity),
// centres a, b:
//   u_q = r Mq (q - a)      u_k = r Mk (k - b)      m = r Mq a
//   ln phi_q_j = w_j . u_q - |u_q|^2 / 2 + lambda_j / 2
//   ln phi_k_j = w_j . u_k - |u_k|^2 / 2 + lambda_j / 2 + m . u_k
//   far:  weights sum_j phi_q_j phi_k_j / F over the far keys              -> o_far, log Zf;
//         with far_all over all keys that the query sees, the near ones too
//   near: weights exp((u_q + m) . u_k) over the window and the sinks        -> o_near, log Zn;
//         with model_near exp(scale q . (k - b)), the model's own: b changes all of a query's
//         alike, so that log Zn leaves out what log Zf leaves out
//   o = g o_near + (1 - g) o_far,   g = sigmoid(c (log Zn - log Zf) + bias) with (c, bias) the gate
// With softmax_features (Hedgehog) F = 2R features are learned, not drawn, and nothing else of the
// above but window, sinks, far_all and gate applies; near keys are weighted as by model_near:
//   phi_q = [softmax(Mq q), softmax(-Mq q)]      phi_k = [softmax(Mk k), softmax(-Mk k)]
//   far:  weights sum_j phi_q_j phi_k_j
// Without window and sinks o = o_far. Before the first far key o = o_near. docs/math.md has the
// derivations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "darkformer/kernels/feature_attention.h"
#include "darkformer/kernels/heads_view.h"

namespace darkformer::kernels {

struct DarkAttention {
  std::size_t B = 0, H = 0, G = 0, N = 0;  // N = G or H parameter groups
  std::size_t T = 0, S = 0, D = 0, Dv = 0, F = 0, R = 0;
  float scale = 1.0F;
  bool causal = true;
  std::size_t window = 0, sinks = 0;
  bool model_near = false;        // near keys by the model's own kernel, not through the factor
  bool far_all = false;           // the far field sees the near keys too
  bool softmax_features = false;  // needs factor and key_factor, and neither centre nor weights
  std::size_t chunk = 0;          // keys per block of the far field; 0 chooses
};

// Parameters are contiguous; null where absent.
struct DarkParameters {
  const float* draws = nullptr;         // (N,F,R); not with softmax_features
  const float* factor = nullptr;        // (N,R,D); null: R = D, identity
  const float* key_factor = nullptr;    // (N,R,D); null: factor
  const float* log_weights = nullptr;   // (N,F)
  const float* query_center = nullptr;  // (N,D)
  const float* key_center = nullptr;    // (G,D)
  const float* gate = nullptr;          // (H,2), or (B,H,T,2) when gate_per_token; null: (1, 0)
  bool gate_per_token = false;
};

struct DarkInputs {
  HeadsView<const float> q, k, v;  // (B,H,T,D), (B,G,S,D), (B,G,S,Dv)
  DarkParameters parameters;
};

// The tensors between the op's inputs and the two fields; made by the forward pass, used again by
// the backward pass.
struct DarkCache {
  std::vector<float> query_draws, key_draws,
      bias;                          // (N,F,D), (N,F,R or D), (N,F): base-2 units, scale folded in
  std::vector<float> mapped_center;  // m (N,R)
  std::vector<float> key_slope;      // (N,R): what a key's offset takes from m, base-2 units
  // u_k (B,N,S,R): with a factor; (B,N,S,D+2) and (B,H,T,D+2): the rows of softmax_features.h
  std::vector<float> keys, queries;
  std::vector<float> near_keys;              // k - b (B,G,S,D): near keys that are not mapped
  std::vector<float> mapped_queries;         // Mq q (B,H,T,R): with a factor and a near field
  std::vector<float> o_far, o_near;          // (B,H,T,Dv): with a near field
  std::vector<float> log_z_far, log_z_near;  // (B,H,T)
  FeatureCache features;
};

// Returns how many rows of the far field fell back to the mean of their values. Fills `cache`;
// record: for a backward pass too.
std::size_t dark_attention(const DarkAttention& shape,
                           const DarkInputs& in,
                           HeadsView<float> o,
                           DarkCache& cache,
                           bool record);

// Contiguous, overwritten. Null where not wanted or where the argument was absent.
struct DarkGradients {
  float* dq = nullptr;       // (B,H,T,D)
  float* dk = nullptr;       // (B,G,S,D)
  float* dv = nullptr;       // (B,G,S,Dv)
  float* d_draws = nullptr;  // and the rest as the parameters
  float* d_factor = nullptr;
  float* d_key_factor = nullptr;
  float* d_log_weights = nullptr;
  float* d_query_center = nullptr;
  float* d_key_center = nullptr;
  float* d_gate = nullptr;
};

// Gradients of sum(o * d_o). dq, dk and dv are required.
void dark_attention_backward(const DarkAttention& shape,
                             const DarkInputs& in,
                             HeadsView<const float> o,
                             HeadsView<const float> d_o,
                             const DarkCache& cache,
                             const DarkGradients& gradients);

// All that a sequence leaves behind; the sums of the far field and the near keys that have not
// entered them yet.
struct DarkState {
  float* sum = nullptr;              // S (B,N,F,Dv)
  float* weight = nullptr;           // z (B,N,F)
  float* log_scale = nullptr;        // (B,N): base 2, an integer; -inf before the first far key
  std::int64_t* position = nullptr;  // one value: the tokens read so far
  float* ring_k = nullptr;           // (B,G,window,D): key s in slot s % window
  float* ring_v = nullptr;           // (B,G,window,Dv)
  float* sink_k = nullptr;           // (B,G,sinks,D)
  float* sink_v = nullptr;           // (B,G,sinks,Dv)
  float* value_sum = nullptr;        // (B,N,Dv): the sum of the far values
};

// An empty state: position 0, sums zero.
void clear_dark_state(const DarkAttention& shape, const DarkState& state);

// Reads T = S more tokens: o as in one pass over all tokens so far. The state is updated in place.
// Causal only.
std::size_t dark_attention_prefill(const DarkAttention& shape,
                                   const DarkInputs& in,
                                   const DarkState& state,
                                   HeadsView<float> o);

// The same for T = S = 1, made for decoding: no blocks, threads over heads.
std::size_t dark_attention_step(const DarkAttention& shape,
                                const DarkInputs& in,
                                const DarkState& state,
                                HeadsView<float> o);

// The formulas as they stand, quadratic and in double: what all of the above is tested against.
struct DarkReference {
  std::vector<double> o;  // (B,H,T,Dv)
  std::vector<double> dq, dk, dv, d_draws, d_factor, d_key_factor, d_log_weights, d_query_center,
      d_key_center, d_gate;
};
// d_o null: forward only.
DarkReference dark_attention_ref(const DarkAttention& shape,
                                 const DarkInputs& in,
                                 const float* d_o);

}  // namespace darkformer::kernels
