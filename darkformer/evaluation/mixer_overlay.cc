// Taking mixers out and putting them back.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/mixer_overlay.h"

namespace darkformer {

MixerOverlay::MixerOverlay(Gemma& model, const Wrap& wrap) : model_(model) {
  for (std::int64_t i = 0; i < model.layers(); ++i) {
    mixers_.push_back(model.block(i)->attention()->mixer());
    model.block(i)->attention()->set_mixer(wrap(i, mixers_.back()));
  }
}

MixerOverlay::~MixerOverlay() {
  for (std::int64_t i = 0; i < model_.layers(); ++i) {
    model_.block(i)->attention()->set_mixer(mixers_[static_cast<std::size_t>(i)]);
  }
}

}  // namespace darkformer
