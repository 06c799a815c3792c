// The parts behind the doors of exact attention, and the jobs they hand to one thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "darkformer/kernels/exact_attention.h"
#include "darkformer/kernels/exact_attention_plan.h"

namespace darkformer::kernels {

// Any T, a block of queries at a time.
void forward_blocks(const ExactAttention& a,
                    const AttentionInputs& in,
                    const AttentionOutputs& out);

// T = 1: pieces of the keys in parallel, then joined.
void forward_decode(const ExactAttention& a,
                    const AttentionInputs& in,
                    const AttentionOutputs& out);

void backward_blocks(const ExactAttention& a,
                     const AttentionInputs& in,
                     const AttentionSaved& saved,
                     const AttentionGradients& out);

// At least `count` floats of this thread's own; the next call of the same thread reuses them.
float* thread_scratch(std::size_t count);

// One block of queries of one head against all keys it sees.
struct ForwardJob {
  const ExactAttention* shape;
  Range queries;
  HeadRows q, k, v;
  HeadRowsOut o, lse;  // lse.data may be null
};

// One piece of the keys for the queries of all heads of one group.
struct PartialSoftmax {
  float maximum, sum;  // maximum in base 2
};
inline constexpr std::size_t kPieceKeys = 256;
struct DecodeJob {
  const ExactAttention* shape;
  Range keys;      // at most kPieceKeys
  const float* q;  // (H / G, round_up(D, 16)), carries the pack factor, zero beyond D
  HeadRows k, v;
  float* o;                 // (H / G, round_up(Dv, 16))
  PartialSoftmax* partial;  // (H / G)
};

// A range of queries of one head, with its own sums for dk and dv over the keys that they see.
struct BackwardJob {
  const ExactAttention* shape;
  Range queries, keys;
  HeadRows q, k, v, o, lse, d_o, d_lse;  // d_lse.data may be null
  HeadRowsOut dq;
  float* dk;  // (keys, round_up(D, 16)), not yet multiplied by the scale
  float* dv;  // (keys, round_up(Dv, 16))
};

// How q.k becomes a base-2 score: packed queries carry `pack`; with a soft-cap the product is the
// argument of tanh and `cap` its factor.
struct ScoreFactors {
  float pack;
  float cap;  // 0: none
};
inline ScoreFactors score_factors(const ExactAttention& a) {
  constexpr float kLog2E = 1.44269504F;
  return a.softcap > 0.0F ? ScoreFactors{a.scale / a.softcap, a.softcap * kLog2E}
                          : ScoreFactors{a.scale * kLog2E, 0.0F};
}

// log(sum 2^maximum), natural, from a base-2 maximum.
inline float log_sum(float maximum, float sum) {
  constexpr double kLn2 = 0.69314718055994531;
  return static_cast<float>(kLn2 * maximum + std::log(static_cast<double>(sum)));
}

}  // namespace darkformer::kernels
