// A model that is looked at while it runs: every layer's mixer tells what passes through it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "darkformer/model/mixer.h"
#include "darkformer/model/observed_mixer.h"
#include "darkformer/text/evaluation_windows.h"

namespace darkformer {

class Decoder;

// Puts observers around all mixers, and at its end the mixers back. One at a time for a model.
class Observation {
 public:
  using Observer = std::function<void(std::int64_t layer, const MixerCall& call)>;

  Observation(Decoder& model, const Observer& observer);
  ~Observation();
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;

  // Runs the model over a window of text; returns its tokens.
  std::int64_t read(const EvaluationWindows& windows, std::int64_t window);

 private:
  Decoder& model_;
  std::vector<std::shared_ptr<Mixer>> mixers_;
};

}  // namespace darkformer
