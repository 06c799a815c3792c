// Observers in and out.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/observation.h"

#include <ATen/core/grad_mode.h>

#include "darkformer/evaluation/batch_tensors.h"
#include "darkformer/model/decoder.h"

namespace darkformer {

Observation::Observation(Decoder& model, const Observer& observer) : model_(model) {
  for (std::int64_t i = 0; i < model.layers(); ++i) {
    mixers_.push_back(model.block(i)->attention()->mixer());
    model.block(i)->attention()->set_mixer(observed_mixer(
        mixers_.back(), [observer, i](const MixerCall& call) { observer(i, call); }));
  }
}

Observation::~Observation() {
  for (std::int64_t i = 0; i < model_.layers(); ++i) {
    model_.block(i)->attention()->set_mixer(mixers_[static_cast<std::size_t>(i)]);
  }
}

std::int64_t Observation::read(const EvaluationWindows& windows, std::int64_t window) {
  const at::NoGradGuard no_gradients;
  const at::Tensor inputs = tensors_of(windows.read_batch(window, 1)).inputs;  // (1,T)
  model_.forward(inputs);
  return inputs.size(1);
}

}  // namespace darkformer
