// The gated feed-forward part on the ops.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/feed_forward.h"

#include "darkformer/model/model_config.h"

namespace darkformer {

FeedForward::FeedForward(const ModelConfig& config, std::int64_t layer, const ParameterPlace& place)
    : activation_(config.activation) {
  const std::int64_t E = config.hidden_size, inner = config.intermediate_of(layer);
  const auto projection = [&](const char* name, std::int64_t in, std::int64_t out) {
    return register_module(
        name, std::make_shared<Projection>(place.child(name), in, out, config.mlp_bias));
  };
  gate_ = projection("gate_proj", E, inner);
  up_ = projection("up_proj", E, inner);
  down_ = projection("down_proj", inner, E);
}

at::Tensor FeedForward::forward(const at::Tensor& x) const {
  return down_->forward(ops::gated_unit(gate_->forward(x), up_->forward(x), activation_));
}

}  // namespace darkformer
