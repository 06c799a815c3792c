// Attention in plain ATen calls: what ours is measured against.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace darkformer::rivals {

// Causal; q (B,H,T,D), k (B,G,T,D), v (B,G,T,Dv), H % G == 0 -> (B,H,T,Dv). Differentiable by
// autograd, which keeps what it needs: the scores (B,H,T,T) of softmax attention.

// softmax(scale q k^T) v
at::Tensor softmax_attention(const at::Tensor& q,
                             const at::Tensor& k,
                             const at::Tensor& v,
                             double scale);

// Positive features of draws (G,F,R) behind an optional factor (G,R,D), undefined: R = D, identity.
// Chunks of tokens: a masked square on the diagonal, running sums of key features before it. The
// largest key logit of the sequence is taken off all of them, which is cheaper than our running
// maximum and enough for inputs of ordinary size.
struct PlainFeatures {
  at::Tensor draws;
  at::Tensor factor;
};
inline constexpr std::int64_t kPlainChunk = 128;
at::Tensor feature_attention(const at::Tensor& q,
                             const at::Tensor& k,
                             const at::Tensor& v,
                             const PlainFeatures& features,
                             double scale,
                             std::int64_t chunk = kPlainChunk);

}  // namespace darkformer::rivals
