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
  ops::check_ids("decoder", "ids", ids);
  require(ids.dim() == 2 && ids.numel() > 0, "decoder: ids are ", ops::describe(ids),
          "; wanted (B,T) with at least one token");
}

std::vector<at::Tensor> trained_of(const torch::nn::Module& module) {
  std::vector<at::Tensor> trained;
  for (const at::Tensor& parameter : module.parameters()) {
    if (parameter.requires_grad()) {
      trained.push_back(parameter);
    }
  }
  return trained;
}

// block(x), to be computed once more in the backward pass. What the layer takes besides x (its own
// embedding, keys that another layer owns) is an input too, and keys that others share an output.
at::Tensor forward_again(const std::shared_ptr<Block>& block,
                         const at::Tensor& x,
                         const at::Tensor& own,
                         const std::shared_ptr<Block>& owner,
                         KeyValues* shared) {
  const bool owns_keys = owner == block;
  std::vector<at::Tensor> trained = trained_of(*block);
  if (!owns_keys) {  // whose factor and draws this layer uses
    const auto more = trained_of(*owner->attention()->mixer());
    trained.insert(trained.end(), more.begin(), more.end());
  }
  std::vector<at::Tensor> inputs = {x, own};
  if (shared != nullptr && !owns_keys) {
    inputs.insert(inputs.end(), {shared->k, shared->v});
  }
  const bool gives_keys = shared != nullptr && owns_keys;
  const auto run = [block, gives_keys](const std::vector<at::Tensor>& in) {
    KeyValues keys;
    if (in.size() > 2) {
      keys = {in[2], in[3]};
    }
    const at::Tensor y =
        block->forward(in[0], in[1], in.size() > 2 || gives_keys ? &keys : nullptr);
    return gives_keys ? std::vector<at::Tensor>{y, keys.k, keys.v} : std::vector<at::Tensor>{y};
  };
  const std::vector<at::Tensor> out = recomputed(run, inputs, trained);
  if (gives_keys) {
    *shared = {out[1], out[2]};
  }
  return out[0];
}

}  // namespace

Decoder::Decoder(ModelConfig config, const ParameterMaker& make, EmbedScale embed_scale)
    : config_(std::move(config)), is_shared_(static_cast<std::size_t>(config_.layers)) {
  check_model_config(config_, "model");
  const std::int64_t E = config_.hidden_size;
  const ParameterPlace place(make, "model.");
  // Modules whose only use is their place in the names.
  const auto model = std::make_shared<torch::nn::Module>("model");
  const auto layers = std::make_shared<torch::nn::Module>("layers");
  embedding_ = model->register_module(
      "embed_tokens", std::make_shared<Embedding>(place.child("embed_tokens"), config_.vocab_size,
                                                  E, embedding_scale(config_, embed_scale)));
  if (config_.per_layer_size > 0) {
    layer_embedding_.emplace(config_, place, *model);
  }
  std::shared_ptr<RotaryPositions> full, sliding;
  for (std::int64_t i = 0; i < config_.layers; ++i) {
    auto& rotary = config_.is_sliding(i) ? sliding : full;
    if (!rotary) {
      rotary = std::make_shared<RotaryPositions>(config_.rope(i), config_.head_dim_of(i));
    }
    const std::string name = std::to_string(i);
    blocks_.push_back(layers->register_module(
        name, std::make_shared<Block>(config_, i, place.child("layers").child(name), rotary)));
    set_mixer(i);
    is_shared_[static_cast<std::size_t>(i)] = !config_.owns_keys(i) || !config_.sharers(i).empty();
  }
  model->register_module("layers", layers);
  norm_ = model->register_module(
      "norm", std::make_shared<Norm>(place.child("norm"), E,
                                     NormStyle{config_.rms_norm_eps, config_.parts().norm_unit}));
  register_module("model", model);
  if (!config_.tied_head) {
    head_ = register_module(
        "lm_head", std::make_shared<Weight>(ParameterPlace(make, "lm_head."),
                                            std::vector<std::int64_t>{config_.vocab_size, E}));
  }
}

void Decoder::set_mixer(std::int64_t layer) {
  const std::int64_t owner = config_.key_layer(layer);
  block(layer)->attention()->set_mixer(make_mixer(
      mixer_shape(config_, layer), config_.attention[static_cast<std::size_t>(layer)], config_.seed,
      config_.draw_index, owner == layer ? nullptr : block(owner)->attention()->mixer().get()));
}

KeyValues* Decoder::shared_by(std::int64_t layer, SharedKeys& keys) const {
  return is_shared_[static_cast<std::size_t>(layer)]
             ? &keys[static_cast<std::size_t>(config_.key_layer(layer))]
             : nullptr;
}

Decoder::Start Decoder::start(const at::Tensor& ids) const {
  const at::Tensor x = embedding_->forward(ids);
  return {x, layer_embedding_ ? layer_embedding_->forward(ids, x) : at::Tensor()};
}

at::Tensor Decoder::forward(const at::Tensor& ids) {
  check_token_matrix(ids);
  const Start begin = start(ids);
  SharedKeys keys(blocks_.size());
  at::Tensor x = begin.x;  // (B,T,E)
  for (std::int64_t i = 0; i < layers(); ++i) {
    const at::Tensor own = begin.own_of(i);
    KeyValues* shared = shared_by(i, keys);
    x = recompute_ ? forward_again(block(i), x, own, block(config_.key_layer(i)), shared)
                   : block(i)->forward(x, own, shared);
  }
  return norm_->forward(x);
}

at::Tensor Decoder::extend(const at::Tensor& ids, DecoderState& state) {
  check_token_matrix(ids);
  const at::NoGradGuard no_gradients;
  state.layers.resize(blocks_.size());
  const Start begin = start(ids);
  SharedKeys keys(blocks_.size());
  std::vector<MixerState> before(blocks_.size());
  at::Tensor x = begin.x;  // (B,T,E)
  for (std::int64_t i = 0; i < layers(); ++i) {
    const auto owner = static_cast<std::size_t>(config_.key_layer(i));
    x = block(i)->extend(x, begin.own_of(i),
                         {.start = state.position,
                          .state = &state.layers[owner],
                          .shared = shared_by(i, keys),
                          .before = &before[owner]});
  }
  x = norm_->forward(x);
  state.position += ids.size(1);
  state.hidden = x.narrow(1, ids.size(1) - 1, 1).clone();
  return x;
}

at::Tensor Decoder::logits(const at::Tensor& hidden) const {
  return head_logits(hidden, head_weight(), config_.final_softcap);
}

ops::CrossEntropy Decoder::loss(const at::Tensor& hidden, const at::Tensor& targets) const {
  return ops::cross_entropy(hidden, head_weight(), targets, config_.final_softcap);
}

void Decoder::redraw(std::int64_t draw_index) {
  const at::NoGradGuard no_gradients;
  config_.draw_index = draw_index;
  for (const std::shared_ptr<Block>& block : blocks_) {
    block->attention()->mixer()->redraw(config_.seed, draw_index);
  }
}

void Decoder::set_attention(std::int64_t layer, const AttentionSpec& spec) {
  require(config_.owns_keys(layer), "layer ", layer, " uses the keys and values of layer ",
          config_.key_layer(layer), ", and so its attention");
  std::vector<std::int64_t> group = config_.sharers(layer);
  group.insert(group.begin(), layer);
  for (const std::int64_t i : group) {
    config_.attention.at(static_cast<std::size_t>(i)) = spec;
    set_mixer(i);
  }
}

void Decoder::set_draws(std::uint64_t seed, std::int64_t draw_index) {
  config_.seed = seed;
  config_.draw_index = draw_index;
}

std::int64_t Decoder::state_bytes(std::int64_t tokens) const {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < layers(); ++i) {
    sum += config_.owns_keys(i) ? block(i)->attention()->mixer()->state_bytes(tokens) : 0;
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
