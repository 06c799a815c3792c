// A decoder of any family with exact or linear-time attention, for training and for decoding.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "darkformer/model/block.h"
#include "darkformer/model/decoder_state.h"
#include "darkformer/model/embedding.h"
#include "darkformer/model/layer_embedding.h"
#include "darkformer/model/model_config.h"

namespace darkformer {

// named_parameters() and named_buffers() carry the names of model folders: Hugging Face's, and
// model.layers.N.self_attn.dark.* for converted attention.
class Decoder : public torch::nn::Module {
 public:
  // Weights come from `make`, those of converted attention from the config's seed.
  Decoder(ModelConfig config,
          const ParameterMaker& make,
          EmbedScale embed_scale = EmbedScale::kFloat32);

  // ids (B,T), int64 or int32 -> hidden (B,T,E) after the final norm. Differentiable.
  at::Tensor forward(const at::Tensor& ids);
  // The same for T more tokens of the sequences of `state`, all B of them at the same position. Not
  // differentiable. Memory grows with T: see read_tokens.
  at::Tensor extend(const at::Tensor& ids, DecoderState& state);
  // (V,E), the embedding where the two are tied.
  const at::Tensor& head_weight() const { return (head_ ? *head_ : *embedding_).value(); }
  // hidden (...,E), any rows of it -> logits (...,V) with the final soft-cap. Differentiable.
  at::Tensor logits(const at::Tensor& hidden) const;
  // targets (...) for hidden (...,E); a negative target is left out. Differentiable.
  ops::CrossEntropy loss(const at::Tensor& hidden, const at::Tensor& targets) const;

  // New draws in every layer that has some and does not learn them, from the config's seed and this
  // index, which becomes the config's.
  void redraw(std::int64_t draw_index);

  // Whether forward keeps only the input of each layer for the backward pass, which then runs the
  // layer once more: the same bits for less memory and more time. Off at first.
  void set_recompute(bool recompute) { recompute_ = recompute; }

  const ModelConfig& config() const { return config_; }
  // Gives a layer and those that share its keys another attention, with its parameters as they
  // start from the config's seed. Error: another layer owns this one's keys.
  void set_attention(std::int64_t layer, const AttentionSpec& spec);
  // Where the draws of layers converted from now on start.
  void set_draws(std::uint64_t seed, std::int64_t draw_index);
  std::int64_t layers() const { return static_cast<std::int64_t>(blocks_.size()); }
  const std::shared_ptr<Block>& block(std::int64_t layer) const { return blocks_[layer]; }
  const std::shared_ptr<Embedding>& embedding() const { return embedding_; }
  // What the layers start from: the embeddings of ids (B,T).
  struct Start {
    at::Tensor x;    // (B,T,E)
    at::Tensor own;  // (B,T,L,P) of the layers' own; undefined where the model has none

    at::Tensor own_of(std::int64_t layer) const {
      return own.defined() ? own.select(2, layer) : own;
    }
  };
  Start start(const at::Tensor& ids) const;
  // Of the state of one sequence after so many tokens.
  std::int64_t state_bytes(std::int64_t tokens) const;

 private:
  void set_mixer(std::int64_t layer);
  // The keys of each layer that others share.
  using SharedKeys = std::vector<KeyValues>;
  KeyValues* shared_by(std::int64_t layer, SharedKeys& keys) const;

  ModelConfig config_;
  std::vector<bool> is_shared_;  // are the keys of this layer used by later ones, or another's?
  std::shared_ptr<Embedding> embedding_;
  std::optional<LayerEmbedding> layer_embedding_;
  std::shared_ptr<Weight> head_;  // null: the embedding
  std::vector<std::shared_ptr<Block>> blocks_;
  std::shared_ptr<Norm> norm_;
  bool recompute_ = false;
};

// Reads ids (B,T) into the state, a block of tokens at a time, so that memory stays bounded however
// long they are; fills state.hidden. `each` gets the hidden states (B,block,E) of every block in
// turn (they need not be kept); what it throws ends the reading.
inline constexpr std::int64_t kReadBlock = 256;
void read_tokens(Decoder& model,
                 const at::Tensor& ids,
                 DecoderState& state,
                 const std::function<void(const at::Tensor& hidden)>& each = {});

// A number that (almost surely) changes when the config, the weights or the draws do: all bytes of
// converted attention, a sample of every large weight. For states and caches, against accidents.
std::uint64_t fingerprint(const Decoder& model);

}  // namespace darkformer
