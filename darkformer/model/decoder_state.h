// What a model keeps of a sequence that it has read, so that it can go on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "darkformer/model/mixer.h"

namespace darkformer {

// A fresh one has read nothing. Copying shares the tensors, clone() and select() do not: fork a
// sequence with clone().
struct DecoderState {
  std::vector<MixerState> layers;
  std::int64_t position = 0;  // tokens read
  at::Tensor hidden;          // (B,1,E) of the last token, after the final norm; undefined at first

  DecoderState clone() const;
  // The state of these of its sequences, in this order; one may be chosen more than once. Each goes
  // on as it would have, with the same bits where the number of rows does not change the products
  // (kernels/matvec.h: up to kMatvecVectors of them).
  DecoderState select(const std::vector<std::int64_t>& rows) const;
  std::int64_t bytes() const;
};

}  // namespace darkformer
