// Copies and sizes of states.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/decoder_state.h"

#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>

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

DecoderState DecoderState::select(const std::vector<std::int64_t>& rows) const {
  const at::Tensor chosen = at::tensor(rows, at::kLong);
  DecoderState copy;
  copy.position = position;
  copy.hidden = hidden.defined() ? hidden.index_select(0, chosen) : at::Tensor();
  for (const MixerState& layer : layers) {
    copy.layers.push_back(layer.select(chosen));
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
