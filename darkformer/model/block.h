// One layer of a Gemma: attention and feed-forward part, each with its norms and its residual.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "darkformer/model/attention.h"
#include "darkformer/model/feed_forward.h"

namespace darkformer {

// Gemma 1:     h = x + attention(N1 x)       y = h + feed_forward(N2 h)
// Gemma 2, 3:  h = x + N2 attention(N1 x)    y = h + N4 feed_forward(N3 h)
// where N1 .. N4 are input_layernorm, post_attention_layernorm (which Gemma 1 uses before its
// feed-forward part, against its name), pre_feedforward_layernorm and post_feedforward_layernorm.
class Block : public torch::nn::Module {
 public:
  Block(const ModelConfig& config,
        std::int64_t layer,
        const ParameterPlace& place,
        std::shared_ptr<RotaryPositions> rotary);

  // x (B,T,E) -> (B,T,E), as in Attention.
  at::Tensor forward(const at::Tensor& x);
  at::Tensor extend(const at::Tensor& x, std::int64_t start, MixerState& state);
  // forward in its two halves, for those who look at what is between: forward(x) is
  // finish(x, attend(x)), attend(x) is attention(N1 x).
  at::Tensor attend(const at::Tensor& x);
  at::Tensor finish(const at::Tensor& x, const at::Tensor& attended) const;

  const std::shared_ptr<Attention>& attention() const { return attention_; }

 private:
  std::shared_ptr<Attention> attention_;
  std::shared_ptr<FeedForward> feed_forward_;
  std::shared_ptr<Norm> input_norm_, post_attention_norm_;
  std::shared_ptr<Norm> pre_feed_forward_norm_, post_feed_forward_norm_;  // null in Gemma 1
};

}  // namespace darkformer
