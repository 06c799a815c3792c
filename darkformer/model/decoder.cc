// The stack of layers.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/decoder.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "darkformer/base/error.h"
#include "darkformer/model/recompute.h"
#include "darkformer/ops/tensor_checks.h"

namespace darkformer {
namespace {

void check_token_matrix(const at::Tensor& ids) {
  ops::check_ids("gemma", "ids", ids);
  require(ids.dim() == 2 && ids.numel() > 0, "gemma: ids are ", ops::describe(ids),
          "; wanted (B,T) with at least one token");
}

// block(x), to be computed once more in the backward pass.
at::Tensor forward_again(const std::shared_ptr<Block>& block, const at::Tensor& x) {
  std::vector<at::Tensor> trained;
  for (const at::Tensor& parameter : block->parameters()) {
    if (parameter.requires_grad()) {
      trained.push_back(parameter);
    }
  }
  return recomputed([block](const at::Tensor& input) { return block->forward(input); }, x, trained);
}

}  // namespace

Decoder::Decoder(ModelConfig config, const ParameterMaker& make, EmbedScale embed_scale)
    : config_(std::move(config)) {
  const std::int64_t E = config_.hidden_size;
  const ParameterPlace place(make, "model.");
  // Modules whose only use is their place in the names.
  const auto model = std::make_shared<torch::nn::Module>("model");
  const auto layers = std::make_shared<torch::nn::Module>("layers");
  embedding_ = model->register_module(
      "embed_tokens",
      std::make_shared<Embedding>(place.child("embed_tokens"), config_.vocab_size, E, embed_scale));
  const auto full = std::make_shared<RotaryPositions>(config_.rope_full, config_.head_dim);
  const auto sliding = std::make_shared<RotaryPositions>(config_.rope_sliding, config_.head_dim);
  for (std::int64_t i = 0; i < config_.layers; ++i) {
    const std::string name = std::to_string(i);
    blocks_.push_back(layers->register_module(
        name, std::make_shared<Block>(config_, i, place.child("layers").child(name),
                                      config_.is_sliding(i) ? sliding : full)));
  }
  model->register_module("layers", layers);
  norm_ = model->register_module(
      "norm", std::make_shared<Norm>(place.child("norm"), E, config_.rms_norm_eps));
  register_module("model", model);
}

at::Tensor Decoder::forward(const at::Tensor& ids) {
  check_token_matrix(ids);
  at::Tensor x = embedding_->forward(ids);  // (B,T,E)
  for (const auto& block : blocks_) {
    x = recompute_ ? forward_again(block, x) : block->forward(x);
  }
  return norm_->forward(x);
}

at::Tensor Decoder::extend(const at::Tensor& ids, DecoderState& state) {
  check_token_matrix(ids);
  const at::NoGradGuard no_gradients;
  state.layers.resize(blocks_.size());
  at::Tensor x = embedding_->forward(ids);  // (B,T,E)
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    x = blocks_[i]->extend(x, state.position, state.layers[i]);
  }
  x = norm_->forward(x);
  state.position += ids.size(1);
  state.hidden = x.narrow(1, ids.size(1) - 1, 1).clone();
  return x;
}

at::Tensor Decoder::logits(const at::Tensor& hidden) const {
  return embedding_->logits(hidden, config_.final_softcap);
}

ops::CrossEntropy Decoder::loss(const at::Tensor& hidden, const at::Tensor& targets) const {
  return embedding_->loss(hidden, targets, config_.final_softcap);
}

void Decoder::redraw(std::int64_t draw_index) {
  const at::NoGradGuard no_gradients;
  config_.draw_index = draw_index;
  for (const std::shared_ptr<Block>& block : blocks_) {
    block->attention()->mixer()->redraw(config_.seed, draw_index);
  }
}

void Decoder::set_attention(std::int64_t layer, const AttentionSpec& spec) {
  config_.attention.at(static_cast<std::size_t>(layer)) = spec;
  block(layer)->attention()->set_mixer(
      make_mixer(mixer_shape(config_, layer), spec, config_.seed, config_.draw_index));
}

void Decoder::set_draws(std::uint64_t seed, std::int64_t draw_index) {
  config_.seed = seed;
  config_.draw_index = draw_index;
}

std::int64_t Decoder::state_bytes(std::int64_t tokens) const {
  std::int64_t sum = 0;
  for (const auto& block : blocks_) {
    sum += block->attention()->mixer()->state_bytes(tokens);
  }
  return sum;
}

void read_tokens(Decoder& model,
                 const at::Tensor& ids,
                 DecoderState& state,
                 const std::function<void(const at::Tensor& hidden)>& each) {
  check_token_matrix(ids);
  for (std::int64_t begin = 0; begin < ids.size(1); begin += kReadBlock) {
    const std::int64_t count = std::min(kReadBlock, ids.size(1) - begin);
    const at::Tensor hidden = model.extend(ids.narrow(1, begin, count), state);
    if (each) {
      each(hidden);
    }
  }
}

}  // namespace darkformer
