// Gemma 4's embeddings of each layer's own: a small vector for every token and layer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "darkformer/model/embedding.h"

namespace darkformer {

// With P the size, L layers, T the table of the token's vectors, W a projection of its embedding x:
//   (norm(x W^T E^-1/2) + P^1/2 T[id]) / sqrt(2)       for each layer, (B,T,L,P)
class LayerEmbedding {
 public:
  // Registers its weights with `parent`, whose names they carry.
  LayerEmbedding(const ModelConfig& config, const ParameterPlace& place, torch::nn::Module& parent);

  // ids (B,T), their embeddings x (B,T,E) -> (B,T,L,P). Differentiable.
  at::Tensor forward(const at::Tensor& ids, const at::Tensor& x) const;

 private:
  std::int64_t layers_, size_;
  double projection_scale_;
  std::shared_ptr<Embedding> tokens_;
  std::shared_ptr<Projection> projection_;
  std::shared_ptr<Norm> norm_;
};

}  // namespace darkformer
