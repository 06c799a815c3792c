// Gemma 1, 2 and 3 (text) with exact or linear-time attention, for training and for decoding.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "darkformer/model/block.h"
#include "darkformer/model/decoder_state.h"
#include "darkformer/model/embedding.h"
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
  // Gives a layer another attention, with its parameters as they start from the config's seed.
  void set_attention(std::int64_t layer, const AttentionSpec& spec);
  // Where the draws of layers converted from now on start.
  void set_draws(std::uint64_t seed, std::int64_t draw_index);
  std::int64_t layers() const { return static_cast<std::int64_t>(blocks_.size()); }
  const std::shared_ptr<Block>& block(std::int64_t layer) const { return blocks_[layer]; }
  const std::shared_ptr<Embedding>& embedding() const { return embedding_; }
  // Of the state of one sequence after so many tokens.
  std::int64_t state_bytes(std::int64_t tokens) const;

 private:
  ModelConfig config_;
  std::shared_ptr<Embedding> embedding_;
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
