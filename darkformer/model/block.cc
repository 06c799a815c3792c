// A layer with its norms and residuals.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/block.h"

#include <ATen/TensorOperators.h>

namespace darkformer {

Block::Block(const ModelConfig& config,
             std::int64_t layer,
             const ParameterPlace& place,
             std::shared_ptr<RotaryPositions> rotary) {
  const auto norm = [&](const char* name) {
    return register_module(
        name, std::make_shared<Norm>(place.child(name), config.hidden_size, config.rms_norm_eps));
  };
  attention_ = register_module(
      "self_attn",
      std::make_shared<Attention>(config, layer, place.child("self_attn"), std::move(rotary)));
  feed_forward_ =
      register_module("mlp", std::make_shared<FeedForward>(place.child("mlp"), config.hidden_size,
                                                           config.intermediate_size));
  input_norm_ = norm("input_layernorm");
  post_attention_norm_ = norm("post_attention_layernorm");
  if (config.has_post_norms()) {
    pre_feed_forward_norm_ = norm("pre_feedforward_layernorm");
    post_feed_forward_norm_ = norm("post_feedforward_layernorm");
  }
}

at::Tensor Block::finish(const at::Tensor& x, const at::Tensor& attended) const {
  if (!post_feed_forward_norm_) {
    const at::Tensor h = x + attended;
    return h + feed_forward_->forward(post_attention_norm_->forward(h));
  }
  const at::Tensor h = x + post_attention_norm_->forward(attended);
  const at::Tensor fed = feed_forward_->forward(pre_feed_forward_norm_->forward(h));
  return h + post_feed_forward_norm_->forward(fed);
}

at::Tensor Block::forward(const at::Tensor& x) {
  return finish(x, attend(x));
}

at::Tensor Block::attend(const at::Tensor& x) {
  return attention_->forward(input_norm_->forward(x));
}

at::Tensor Block::extend(const at::Tensor& x, std::int64_t start, MixerState& state) {
  return finish(x, attention_->extend(input_norm_->forward(x), start, state));
}

}  // namespace darkformer
