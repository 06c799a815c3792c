// Looking at what passes through a layer's mixer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "darkformer/model/mixer.h"

namespace darkformer {

// One call of a mixer: q (B,H,T,D), k and v (B,G,T,D) as it got them (rotated, unscaled), and what
// it gave, out (B,H,T,D).
struct MixerCall {
  const at::Tensor &q, &k, &v, &out;
};
using MixerObserver = std::function<void(const MixerCall&)>;

// A mixer that mixes as `inner` does and tells the observer.
std::shared_ptr<Mixer> observed_mixer(std::shared_ptr<Mixer> inner, MixerObserver observer);

}  // namespace darkformer
