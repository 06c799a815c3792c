// One layer of a decoder: attention and feed-forward part, each with its norms and its residual.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "darkformer/model/attention.h"
#include "darkformer/model/feed_forward.h"

namespace darkformer {

// Gemma 1, Llama, Mistral, Qwen:  h = x + attention(N1 x)       y = h + feed_forward(N2 h)
// Gemma 2, 3, 4:                  h = x + N2 attention(N1 x)    y = h + N4 feed_forward(N3 h)
// where N1 .. N4 are input_layernorm, post_attention_layernorm (which the first sort uses before
// its feed-forward part, against its name), pre_feedforward_layernorm and
// post_feedforward_layernorm. Gemma 4 then adds the layer's own embedding e of the token and scales
// the sum:
//   z = s (y + N5 project(act(gate y) e))
class Block : public torch::nn::Module {
 public:
  Block(const ModelConfig& config,
        std::int64_t layer,
        const ParameterPlace& place,
        std::shared_ptr<RotaryPositions> rotary);

  // x (B,T,E) -> (B,T,E), as in Attention. `own` is e (B,T,P), undefined where the model has none.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& own = {}, KeyValues* shared = nullptr);
  at::Tensor extend(const at::Tensor& x, const at::Tensor& own, const LayerReading& reading);
  // forward in its two halves, for those who look at what is between: forward(x, own, shared) is
  // finish(x, attend(x, shared), own), attend(x) is attention(N1 x).
  at::Tensor attend(const at::Tensor& x, KeyValues* shared = nullptr);
  at::Tensor finish(const at::Tensor& x, const at::Tensor& attended, const at::Tensor& own) const;

  const std::shared_ptr<Attention>& attention() const { return attention_; }

 private:
  at::Tensor with_own(const at::Tensor& y, const at::Tensor& own) const;

  std::shared_ptr<Attention> attention_;
  std::shared_ptr<FeedForward> feed_forward_;
  std::shared_ptr<Norm> input_norm_, post_attention_norm_;
  std::shared_ptr<Norm> pre_feed_forward_norm_, post_feed_forward_norm_;  // null without post_norms
  // Gemma 4; null and undefined elsewhere.
  Activation activation_;
  std::shared_ptr<Projection> own_gate_, own_projection_;
  std::shared_ptr<Norm> own_norm_;
  at::Tensor scalar_;  // (1)
};

}  // namespace darkformer
