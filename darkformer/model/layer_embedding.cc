// The token's part and the projected part of a layer's embedding.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/layer_embedding.h"

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

#include "darkformer/model/model_config.h"

namespace darkformer {

LayerEmbedding::LayerEmbedding(const ModelConfig& config,
                               const ParameterPlace& place,
                               torch::nn::Module& parent)
    : layers_(config.layers),
      size_(config.per_layer_size),
      projection_scale_(1 / std::sqrt(static_cast<double>(config.hidden_size))) {
  const char *tokens = "embed_tokens_per_layer", *projection = "per_layer_model_projection",
             *norm = "per_layer_projection_norm";
  tokens_ = parent.register_module(
      tokens, std::make_shared<Embedding>(place.child(tokens), config.per_layer_vocab,
                                          layers_ * size_, std::sqrt(static_cast<double>(size_))));
  projection_ = parent.register_module(
      projection,
      std::make_shared<Projection>(place.child(projection), config.hidden_size, layers_ * size_));
  norm_ = parent.register_module(
      norm, std::make_shared<Norm>(place.child(norm), size_,
                                   NormStyle{config.rms_norm_eps, config.parts().norm_unit}));
}

at::Tensor LayerEmbedding::forward(const at::Tensor& ids, const at::Tensor& x) const {
  const auto by_layer = [&](const at::Tensor& joined) {
    return joined.view({ids.size(0), ids.size(1), layers_, size_});
  };
  const at::Tensor projected = by_layer(projection_->forward(x) * projection_scale_);
  const at::Tensor own = by_layer(tokens_->forward(ids));
  return (norm_->forward(projected) + own) * (1 / std::numbers::sqrt2);
}

}  // namespace darkformer
