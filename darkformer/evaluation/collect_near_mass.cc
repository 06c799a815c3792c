// The pass: every layer's mixer is observed while it lasts.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/collect_near_mass.h"

#include <ATen/core/grad_mode.h>

#include "darkformer/evaluation/observation.h"
#include "darkformer/model/decoder.h"

namespace darkformer {

std::vector<std::shared_ptr<NearMass>> collect_near_mass(
    Decoder& model,
    const AttentionSpec& spec,
    const EvaluationWindows& windows,
    std::int64_t tokens,
    const std::function<void(std::int64_t)>& each) {
  const at::NoGradGuard no_gradients;
  std::vector<std::shared_ptr<NearMass>> masses;
  for (std::int64_t i = 0; i < model.layers(); ++i) {
    masses.push_back(
        std::make_shared<NearMass>(mixer_shape(model.config(), i), spec.window, spec.sinks));
  }
  Observation observation(model, [&](std::int64_t layer, const MixerCall& call) {
    masses[static_cast<std::size_t>(layer)]->add(call.q, call.k);
  });
  std::int64_t read = 0;
  for (std::int64_t w = 0; w < windows.size() && read < tokens; ++w) {
    read += observation.read(windows, w);
    if (each) {
      each(read);
    }
  }
  return masses;
}

}  // namespace darkformer
