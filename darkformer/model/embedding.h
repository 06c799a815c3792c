// The token embedding: ids in, hidden states out; and the head, hidden states in, logits and loss
// out, which is the embedding again or a weight of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "darkformer/model/parameters.h"
#include "darkformer/ops/cross_entropy.h"

namespace darkformer {

struct ModelConfig;

// How the factor sqrt(E) of Gemma's embeddings is rounded: not at all, or to bfloat16, as engines
// do that compute in bfloat16.
enum class EmbedScale { kFloat32, kBfloat16 };

class Embedding : public Weight {
 public:
  Embedding(const ParameterPlace& place, std::int64_t V, std::int64_t E, double scale)
      : Weight(place, {V, E}), scale_(scale) {}

  // ids (...) -> scale W[ids] (..., E).
  at::Tensor forward(const at::Tensor& ids) const;

  double scale() const { return scale_; }

 private:
  double scale_;
};

// sqrt(E), so rounded, where the family scales its embeddings; 1 elsewhere.
double embedding_scale(const ModelConfig& config, EmbedScale rounding);

// hidden (..., E), weight (V,E) -> hidden W^T, soft-capped where softcap > 0 (..., V).
at::Tensor head_logits(const at::Tensor& hidden, const at::Tensor& weight, double softcap);

}  // namespace darkformer
