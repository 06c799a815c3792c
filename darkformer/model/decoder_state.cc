// Copies and sizes of states.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/decoder_state.h"

namespace darkformer {

DecoderState DecoderState::clone() const {
  DecoderState copy;
  copy.position = position;
  copy.hidden = hidden.defined() ? hidden.clone() : at::Tensor();
  for (const MixerState& layer : layers) {
    copy.layers.push_back(layer.clone());
  }
  return copy;
}

std::int64_t DecoderState::bytes() const {
  std::int64_t sum = 0;
  for (const MixerState& layer : layers) {
    sum += layer.bytes();
  }
  return sum;
}

}  // namespace darkformer
