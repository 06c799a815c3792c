// Attention in plain ATen calls, whole tensors at a time.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/rivals/plain_attention.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace darkformer::rivals {
namespace {

using at::Tensor;

Tensor largest(const Tensor& x, at::IntArrayRef dims) {
  return x.detach().amax(dims, /*keepdim=*/true);
}

// The largest size of a chunk up to `wanted` that cuts T tokens evenly.
std::int64_t even_chunk(std::int64_t T, std::int64_t wanted) {
  std::int64_t chunk = std::min(T, wanted);
  while (T % chunk != 0) {
    --chunk;
  }
  return chunk;
}

// Key logits (B,G,T,F): draws . (M k) - |M k|^2 / 2.
Tensor key_logits(const Tensor& k, const PlainFeatures& features, double scale) {
  Tensor mapped = k * std::sqrt(scale);
  if (features.factor.defined()) {
    mapped = at::matmul(mapped, features.factor.transpose(-1, -2));  // (B,G,T,R)
  }
  const Tensor halves = mapped.square().sum(-1, /*keepdim=*/true) * 0.5;
  return at::matmul(mapped, features.draws.transpose(-1, -2)) - halves;
}

// Query logits (..., G, ?, F): the norm of a query cancels, so M goes into the draws.
Tensor query_logits(const Tensor& q, const PlainFeatures& features, double scale) {
  const Tensor rows =
      features.factor.defined() ? at::matmul(features.draws, features.factor) : features.draws;
  return at::matmul(q, (rows * std::sqrt(scale)).transpose(-1, -2));
}

}  // namespace

Tensor softmax_attention(const Tensor& q, const Tensor& k, const Tensor& v, double scale) {
  const std::int64_t B = q.size(0), H = q.size(1), T = q.size(2), G = k.size(1);
  const Tensor hidden =
      at::full({T, T}, -std::numeric_limits<float>::infinity(), q.options()).triu(1);
  const Tensor rows = (q * scale).reshape({B, G, H / G * T, -1});
  Tensor scores = at::matmul(rows, k.transpose(-1, -2)).view({B, G, H / G, T, T});
  scores.add_(hidden);
  const Tensor weights = scores.softmax(-1).view({B, G, H / G * T, T});
  return at::matmul(weights, v).view({B, H, T, -1});
}

Tensor feature_attention(const Tensor& q,
                         const Tensor& k,
                         const Tensor& v,
                         const PlainFeatures& features,
                         double scale,
                         std::int64_t chunk) {
  const std::int64_t B = q.size(0), H = q.size(1), T = q.size(2), D = q.size(3), G = k.size(1);
  const std::int64_t F = features.draws.size(1), Dv = v.size(3), repeats = H / G;
  const std::int64_t length = even_chunk(T, chunk), chunks = T / length;
  const Tensor grouped = q.reshape({B, G, repeats, chunks, length, D}).transpose(2, 3);
  const Tensor logits_q =
      query_logits(grouped.reshape({B, G, chunks * repeats * length, D}), features, scale);
  const Tensor logits_k = key_logits(k, features, scale);
  const Tensor phi_q = (logits_q - largest(logits_q, {-1})).exp().view({B, G, chunks, -1, F});
  const Tensor phi_k =
      (logits_k - largest(logits_k, {-2, -1})).exp().view({B, G, chunks, length, F});
  // A column of ones beside the values makes the normaliser the last column of every product.
  const Tensor values =
      at::cat({v, at::ones({B, G, T, 1}, v.options())}, -1).view({B, G, chunks, length, Dv + 1});
  const Tensor keys = phi_k.transpose(-1, -2);             // (B,G,C,F,c)
  const Tensor sums = at::matmul(keys, values).cumsum(2);  // (B,G,C,F,Dv+1)
  const Tensor before =
      at::constant_pad_nd(sums.narrow(2, 0, chunks - 1), {0, 0, 0, 0, 1, 0});  // (B,G,C,F,Dv+1)
  Tensor scores = at::matmul(phi_q, keys).view({B, G, chunks, repeats, length, length});
  scores.tril_();
  const Tensor out = at::matmul(scores.view({B, G, chunks, repeats * length, length}), values) +
                     at::matmul(phi_q, before);  // (B,G,C,rc,Dv+1)
  return (out.narrow(-1, 0, Dv) / out.narrow(-1, Dv, 1))
      .view({B, G, chunks, repeats, length, Dv})
      .transpose(2, 3)
      .reshape({B, H, T, Dv});
}

}  // namespace darkformer::rivals
