// The token embedding, which is also the head: ids in, hidden states out, logits and loss back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "darkformer/model/parameters.h"
#include "darkformer/ops/cross_entropy.h"

namespace darkformer {

// How the factor sqrt(E) of the embeddings is rounded: not at all, or to bfloat16, as engines do
// that compute in bfloat16.
enum class EmbedScale { kFloat32, kBfloat16 };

class Embedding : public Weight {
 public:
  Embedding(const ParameterPlace& place, std::int64_t V, std::int64_t E, EmbedScale scale);

  // ids (...) -> sqrt(E) W[ids] (..., E).
  at::Tensor forward(const at::Tensor& ids) const;
  // hidden (..., E) -> hidden W^T, soft-capped where softcap > 0 (..., V).
  at::Tensor logits(const at::Tensor& hidden, double softcap) const;
  // The loss of next tokens without any (.., V) matrix: ops/cross_entropy.h.
  ops::CrossEntropy loss(const at::Tensor& hidden, const at::Tensor& targets, double softcap) const;

  double scale() const { return scale_; }

 private:
  double scale_;
};

}  // namespace darkformer
