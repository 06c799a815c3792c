// What a model keeps of a sequence that it has read, so that it can go on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "darkformer/model/mixer.h"

namespace darkformer {

// A fresh one has read nothing. Copying shares the tensors, clone() does not: fork a sequence with
// clone().
struct DecoderState {
  std::vector<MixerState> layers;
  std::int64_t position = 0;  // tokens read
  at::Tensor hidden;          // (B,1,E) of the last token, after the final norm; undefined at first

  DecoderState clone() const;
  std::int64_t bytes() const;
};

}  // namespace darkformer
