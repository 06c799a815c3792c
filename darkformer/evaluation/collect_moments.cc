// The pass: every layer's mixer is observed while it lasts.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/collect_moments.h"

#include <ATen/ATen.h>

namespace darkformer {
namespace {

// Puts observers around all mixers, and the mixers back.
class Observation {
 public:
  explicit Observation(Gemma& model) : model_(model) {
    const GemmaConfig& config = model.config();
    for (std::int64_t i = 0; i < model.layers(); ++i) {
      moments.push_back(
          std::make_shared<LayerMoments>(config.heads, config.kv_heads, config.head_dim));
      mixers_.push_back(model.block(i)->attention()->mixer());
      model.block(i)->attention()->set_mixer(observed_mixer(mixers_.back(), moments.back()));
    }
  }
  ~Observation() {
    for (std::int64_t i = 0; i < model_.layers(); ++i) {
      model_.block(i)->attention()->set_mixer(mixers_[static_cast<std::size_t>(i)]);
    }
  }
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;

  std::vector<std::shared_ptr<LayerMoments>> moments;

 private:
  Gemma& model_;
  std::vector<std::shared_ptr<Mixer>> mixers_;
};

}  // namespace

std::vector<std::shared_ptr<LayerMoments>> collect_moments(
    Gemma& model,
    const EvaluationWindows& windows,
    std::int64_t tokens,
    const std::function<void(std::int64_t)>& each) {
  const at::NoGradGuard no_gradients;
  const Observation observation(model);
  std::int64_t read = 0;
  for (std::int64_t w = 0; w < windows.size() && read < tokens; ++w) {
    const TokenBatch batch = windows.read_batch(w, 1);
    // The last id is a target only.
    const at::Tensor ids = at::tensor(batch.ids, at::kLong).reshape({1, -1});
    model.forward(ids.slice(1, 0, ids.size(1) - 1));
    read += ids.size(1) - 1;
    if (each) {
      each(read);
    }
  }
  return observation.moments;
}

}  // namespace darkformer
