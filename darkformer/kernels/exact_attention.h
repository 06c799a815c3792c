// Softmax attention by blocks with an online normaliser: forward, backward, and one query against
// a cache.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "darkformer/kernels/heads_view.h"

namespace darkformer::kernels {

// H query heads share G key/value heads (H % G == 0): query head h reads key head h / (H / G).
// Key j is visible to query i where
//   not causal:  always
//   causal:      j <= i + S - T, and (window == 0 or j > i + S - T - window or j < sinks)
// so the last query sees the last key, the window counts the query's own key, and the first `sinks`
// keys stay visible beside the window. A window needs causal.
struct ExactAttention {
  std::size_t B = 0, H = 0, G = 0;
  std::size_t T = 0, S = 0;
  std::size_t D = 0, Dv = 0;
  float scale = 1.0F;
  bool causal = true;
  std::size_t window = 0;  // 0: unlimited
  std::size_t sinks = 0;
  float softcap = 0.0F;  // 0: none
};

struct AttentionInputs {
  HeadsView<const float> q;  // (B,H,T,D)
  HeadsView<const float> k;  // (B,G,S,D)
  HeadsView<const float> v;  // (B,G,S,Dv)
};

// lse may be null. Its element stride is not used.
struct AttentionOutputs {
  HeadsView<float> o;    // (B,H,T,Dv)
  HeadsView<float> lse;  // (B,H,T)
};

// What backward needs beside the inputs; o and lse as the forward pass wrote them.
struct AttentionSaved {
  HeadsView<const float> o;      // (B,H,T,Dv)
  HeadsView<const float> lse;    // (B,H,T)
  HeadsView<const float> d_o;    // (B,H,T,Dv)
  HeadsView<const float> d_lse;  // (B,H,T); null: zero
};

struct AttentionGradients {
  HeadsView<float> dq;  // (B,H,T,D)
  HeadsView<float> dk;  // (B,G,S,D)
  HeadsView<float> dv;  // (B,G,S,Dv)
};

// x_ij = scale q_i.k_j,  s_ij = x_ij or softcap tanh(x_ij / softcap)
// lse_i = log sum_j exp s_ij,  o_i = sum_j exp(s_ij - lse_i) v_j          (j visible to i)
// A query that sees no key gets o = 0 and lse = -infinity. With T = 1 the work is split over keys,
// so that one query against a long cache uses all threads. Outputs must not overlap the inputs.
// For finite inputs, under causal, row i does not depend on keys after it by a single bit; nothing
// depends on the number of threads. Scores up to 1e4 in size give finite results.
void exact_attention(const ExactAttention& shape,
                     const AttentionInputs& in,
                     const AttentionOutputs& out);

// Gradients of a loss with respect to q, k, v, given those with respect to o and lse. Recomputes
// the probabilities by blocks from lse. A query that sees no key contributes nothing. Gradients are
// written, not added; they must not overlap anything else. Bits do not depend on the threads.
void exact_attention_backward(const ExactAttention& shape,
                              const AttentionInputs& in,
                              const AttentionSaved& saved,
                              const AttentionGradients& out);

// The same as the formulas say, quadratic and in double: what the above is tested against.
struct AttentionOutputsRef {
  HeadsView<double> o, lse;
};
struct AttentionGradientsRef {
  HeadsView<double> dq, dk, dv;
};
void exact_attention_ref(const ExactAttention& shape,
                         const AttentionInputs& in,
                         const AttentionOutputsRef& out);
void exact_attention_backward_ref(const ExactAttention& shape,
                                  const AttentionInputs& in,
                                  HeadsView<const float> d_o,
                                  HeadsView<const float> d_lse,
                                  const AttentionGradientsRef& out);
// p_ij of one query over all keys, 0 where not visible.
std::vector<double> exact_attention_row_ref(const ExactAttention& shape,
                                            const AttentionInputs& in,
                                            std::size_t b,
                                            std::size_t h,
                                            std::size_t i);

}  // namespace darkformer::kernels
