// A layer's attention: projections to heads, norms and rotation around an interchangeable mixer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "darkformer/model/mixer.h"
#include "darkformer/model/parameters.h"
#include "darkformer/model/rotary_positions.h"

namespace darkformer {

struct ModelConfig;

// What a layer's mixer needs to know of the model.
MixerShape mixer_shape(const ModelConfig& config, std::int64_t layer);

class Attention : public torch::nn::Module {
 public:
  // `rotary` is shared by all layers of one rotation.
  Attention(const ModelConfig& config,
            std::int64_t layer,
            const ParameterPlace& place,
            std::shared_ptr<RotaryPositions> rotary);

  // x (B,T,E) -> (B,T,E); token t is at position t. Differentiable.
  at::Tensor forward(const at::Tensor& x);
  // The same for T more tokens of a sequence, the first at position `start`; updates the state.
  at::Tensor extend(const at::Tensor& x, std::int64_t start, MixerState& state);

  const std::shared_ptr<Mixer>& mixer() const { return mixer_; }
  // Another way to mix from now on; its parameters take the place of the old one's.
  void set_mixer(std::shared_ptr<Mixer> mixer);
  // W_q <- M W_q and W_k <- M W_k, for maps (H,D,D) and (G,D,D) of heads, as float32: queries and
  // keys come out mapped. Error: norms stand between the projections and the map.
  void fold_maps(const at::Tensor& query_maps, const at::Tensor& key_maps);

 private:
  struct Heads {
    at::Tensor q;  // (B,H,T,D)
    at::Tensor k;  // (B,G,T,D)
    at::Tensor v;  // (B,G,T,D)
  };
  Heads project(const at::Tensor& x, std::int64_t start);
  at::Tensor join(const at::Tensor& mixed) const;

  std::int64_t heads_, kv_heads_, head_dim_;
  std::shared_ptr<RotaryPositions> rotary_;
  std::shared_ptr<Projection> query_, key_, value_, output_;
  std::shared_ptr<Norm> query_norm_, key_norm_;  // null before Gemma 3
  std::shared_ptr<Mixer> mixer_;
};

}  // namespace darkformer
