// A layer with its norms and residuals.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/block.h"

#include <ATen/TensorOperators.h>

#include "darkformer/model/model_config.h"

namespace darkformer {

Block::Block(const ModelConfig& config,
             std::int64_t layer,
             const ParameterPlace& place,
             std::shared_ptr<RotaryPositions> rotary)
    : activation_(config.activation) {
  const std::int64_t E = config.hidden_size, P = config.per_layer_size;
  const auto norm = [&](const char* name) {
    return register_module(
        name, std::make_shared<Norm>(place.child(name), E,
                                     NormStyle{config.rms_norm_eps, config.parts().norm_unit}));
  };
  const auto projection = [&](const char* name, std::int64_t in, std::int64_t out) {
    return register_module(name, std::make_shared<Projection>(place.child(name), in, out));
  };
  attention_ = register_module(
      "self_attn",
      std::make_shared<Attention>(config, layer, place.child("self_attn"), std::move(rotary)));
  feed_forward_ =
      register_module("mlp", std::make_shared<FeedForward>(config, layer, place.child("mlp")));
  input_norm_ = norm("input_layernorm");
  post_attention_norm_ = norm("post_attention_layernorm");
  if (config.parts().post_norms) {
    pre_feed_forward_norm_ = norm("pre_feedforward_layernorm");
    post_feed_forward_norm_ = norm("post_feedforward_layernorm");
  }
  if (P > 0) {
    own_gate_ = projection("per_layer_input_gate", E, P);
    own_projection_ = projection("per_layer_projection", P, E);
    own_norm_ = norm("post_per_layer_input_norm");
  }
  if (config.parts().layer_scalar) {
    scalar_ = register_buffer("layer_scalar", place.tensor("layer_scalar", {1}).detach());
  }
}

at::Tensor Block::finish(const at::Tensor& x,
                         const at::Tensor& attended,
                         const at::Tensor& own) const {
  if (!post_feed_forward_norm_) {
    const at::Tensor h = x + attended;
    return h + feed_forward_->forward(post_attention_norm_->forward(h));
  }
  const at::Tensor h = x + post_attention_norm_->forward(attended);
  const at::Tensor fed = feed_forward_->forward(pre_feed_forward_norm_->forward(h));
  const at::Tensor y = with_own(h + post_feed_forward_norm_->forward(fed), own);
  return scalar_.defined() ? y * scalar_.to(y.scalar_type()) : y;
}

at::Tensor Block::with_own(const at::Tensor& y, const at::Tensor& own) const {
  if (!own_gate_) {
    return y;
  }
  const at::Tensor gated = ops::gated_unit(own_gate_->forward(y), own, activation_);
  return y + own_norm_->forward(own_projection_->forward(gated));
}

at::Tensor Block::forward(const at::Tensor& x, const at::Tensor& own, KeyValues* shared) {
  return finish(x, attend(x, shared), own);
}

at::Tensor Block::attend(const at::Tensor& x, KeyValues* shared) {
  return attention_->forward(input_norm_->forward(x), shared);
}

at::Tensor Block::extend(const at::Tensor& x, const at::Tensor& own, const LayerReading& reading) {
  return finish(x, attention_->extend(input_norm_->forward(x), reading), own);
}

}  // namespace darkformer
