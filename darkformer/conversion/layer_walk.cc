// Hidden states from layer to layer.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/conversion/layer_walk.h"

#include <ATen/ATen.h>

#include "darkformer/model/observed_mixer.h"

namespace darkformer {
namespace {

using at::Tensor;

constexpr std::int64_t kTokensAtOnce = 1024;

// Keeps the queries and keys that pass through a layer while it lives.
class Listener {
 public:
  Listener(const std::shared_ptr<Attention>& attention)
      : attention_(attention), mixer_(attention->mixer()) {
    attention->set_mixer(observed_mixer(mixer_, [this](const MixerCall& call) {
      q.push_back(call.q.contiguous());
      k.push_back(call.k.contiguous());
    }));
  }
  ~Listener() { attention_->set_mixer(mixer_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  std::vector<Tensor> q, k;

 private:
  std::shared_ptr<Attention> attention_;
  std::shared_ptr<Mixer> mixer_;
};

}  // namespace

LayerWalk::LayerWalk(Decoder& model, const Tensor& ids) : model_(model) {
  const at::NoGradGuard no_gradients;
  const std::int64_t rows = std::max<std::int64_t>(1, kTokensAtOnce / ids.size(1));
  for (const Tensor& part : ids.split(rows, 0)) {
    parts_.push_back(
        {model.start(part), {}, std::vector<KeyValues>(static_cast<std::size_t>(model.layers()))});
  }
}

KeyValues* LayerWalk::shared(Part& part) const {
  const ModelConfig& config = model_.config();
  const bool is_shared = !config.owns_keys(layer_) || !config.sharers(layer_).empty();
  return is_shared ? &part.keys[static_cast<std::size_t>(config.key_layer(layer_))] : nullptr;
}

RowExamples LayerWalk::look(const std::function<void()>& each) {
  const at::NoGradGuard no_gradients;
  const std::shared_ptr<Block>& block = model_.block(layer_);
  Listener listener(block->attention());
  for (Part& part : parts_) {
    part.attended = block->attend(part.at.x, shared(part));
    if (each) {
      each();
    }
  }
  return {at::cat(listener.q), at::cat(listener.k)};
}

void LayerWalk::pass() {
  const at::NoGradGuard no_gradients;
  for (Part& part : parts_) {
    part.at.x = model_.block(layer_)->finish(part.at.x, part.attended, part.at.own_of(layer_));
    part.attended = Tensor();
  }
  ++layer_;
}

void LayerWalk::run_again(const std::function<void()>& each) {
  const at::NoGradGuard no_gradients;
  for (Part& part : parts_) {
    part.attended = model_.block(layer_)->attend(part.at.x, shared(part));
    if (each) {
      each();
    }
  }
  pass();
}

}  // namespace darkformer
