// The pass: every layer's mixer is observed while it lasts.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/collect_near_mass.h"

#include <ATen/ATen.h>

#include "darkformer/evaluation/batch_tensors.h"
#include "darkformer/evaluation/mixer_overlay.h"

namespace darkformer {
namespace {

class NearMassMixer : public WrappedMixer {
 public:
  NearMassMixer(std::shared_ptr<Mixer> observed, std::shared_ptr<NearMass> mass)
      : WrappedMixer(std::move(observed)), mass_(std::move(mass)) {}

  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) override {
    mass_->add(q, k);
    return inner()->forward(q, k, v);
  }

 private:
  std::shared_ptr<NearMass> mass_;
};

}  // namespace

std::vector<std::shared_ptr<NearMass>> collect_near_mass(
    Gemma& model,
    const AttentionSpec& spec,
    const EvaluationWindows& windows,
    std::int64_t tokens,
    const std::function<void(std::int64_t)>& each) {
  const at::NoGradGuard no_gradients;
  std::vector<std::shared_ptr<NearMass>> masses;
  const MixerOverlay overlay(model, [&](std::int64_t layer, std::shared_ptr<Mixer> inner) {
    masses.push_back(
        std::make_shared<NearMass>(mixer_shape(model.config(), layer), spec.window, spec.sinks));
    return std::make_shared<NearMassMixer>(std::move(inner), masses.back());
  });
  std::int64_t read = 0;
  for (std::int64_t w = 0; w < windows.size() && read < tokens; ++w) {
    const BatchTensors batch = tensors_of(windows.read_batch(w, 1));
    model.forward(batch.inputs);
    read += batch.inputs.size(1);
    if (each) {
      each(read);
    }
  }
  return masses;
}

}  // namespace darkformer
