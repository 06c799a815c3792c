// The pass: every layer's mixer is observed while it lasts.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/collect_moments.h"

#include "darkformer/evaluation/observation.h"
#include "darkformer/model/decoder.h"

namespace darkformer {

std::vector<std::shared_ptr<LayerMoments>> empty_moments(const ModelConfig& config) {
  std::vector<std::shared_ptr<LayerMoments>> moments;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const auto owner = static_cast<std::size_t>(config.key_layer(i));
    moments.push_back(config.owns_keys(i)
                          ? std::make_shared<LayerMoments>(config.heads, config.kv_heads_of(i),
                                                           config.head_dim_of(i))
                          : moments[owner]);
  }
  return moments;
}

std::vector<std::shared_ptr<LayerMoments>> collect_moments(
    Decoder& model,
    const EvaluationWindows& windows,
    std::int64_t tokens,
    const std::function<void(std::int64_t)>& each) {
  const auto moments = empty_moments(model.config());
  Observation observation(model, [&](std::int64_t layer, const MixerCall& call) {
    moments[static_cast<std::size_t>(layer)]->add(call.q, call.k);
  });
  std::int64_t read = 0;
  for (std::int64_t w = 0; w < windows.size() && read < tokens; ++w) {
    read += observation.read(windows, w);
    if (each) {
      each(read);
    }
  }
  return moments;
}

}  // namespace darkformer
