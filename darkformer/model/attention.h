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

// The keys and values of a layer as its mixer gets them: (B,G,T,D) each.
struct KeyValues {
  at::Tensor k, v;
};

// What a layer needs besides its input to read T more tokens of a sequence.
struct LayerReading {
  std::int64_t start = 0;       // the first one's position
  MixerState* state = nullptr;  // of the layer that owns the keys: updated by it, read by sharers
  // Where several layers share keys: the owner puts its new keys here, and its state as it was
  // before them where its sharers need that.
  KeyValues* shared = nullptr;
  MixerState* before = nullptr;
};

class Attention : public torch::nn::Module {
 public:
  // `rotary` is shared by all layers of one rotation.
  Attention(const ModelConfig& config,
            std::int64_t layer,
            const ParameterPlace& place,
            std::shared_ptr<RotaryPositions> rotary);

  // x (B,T,E) -> (B,T,E); token t is at position t. Differentiable. `shared`, where several layers
  // use the same keys and values: the one that owns them puts them there, the others take them.
  at::Tensor forward(const at::Tensor& x, KeyValues* shared = nullptr);
  // The same for T more tokens of a sequence.
  at::Tensor extend(const at::Tensor& x, const LayerReading& reading);

  const std::shared_ptr<Mixer>& mixer() const { return mixer_; }
  // Another way to mix from now on; its parameters take the place of the old one's.
  void set_mixer(std::shared_ptr<Mixer> mixer);
  // W_q <- M W_q and W_k <- M W_k, for maps (H,D,D) and (G,D,D) of heads, as float32: queries and
  // keys come out mapped. Error: norms stand between the projections and the map.
  void fold_maps(const at::Tensor& query_maps, const at::Tensor& key_maps);

 private:
  using Table = std::shared_ptr<const ops::RotaryTable>;
  at::Tensor queries(const at::Tensor& x, const Table& table, std::int64_t start);
  KeyValues keys(const at::Tensor& x, const Table& table, std::int64_t start);
  at::Tensor join(const at::Tensor& mixed) const;

  std::int64_t heads_, kv_heads_, head_dim_;
  double epsilon_;  // of the value norm
  std::shared_ptr<RotaryPositions> rotary_;
  std::shared_ptr<Projection> query_, output_;
  std::shared_ptr<Projection> key_, value_;      // null where another layer owns the keys; a null
                                                 // value_ beside a key_: values are keys
  std::shared_ptr<Norm> query_norm_, key_norm_;  // null where the family has none
  at::Tensor value_norm_;                        // ones: a norm without a weight; undefined: none
  std::shared_ptr<Mixer> mixer_;
};

}  // namespace darkformer
