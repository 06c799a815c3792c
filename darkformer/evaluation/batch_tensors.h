// A batch of tokens as the tensors a model takes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "darkformer/text/token_batch.h"

namespace darkformer {

struct BatchTensors {
  at::Tensor inputs;         // (B,T) int64
  at::Tensor targets;        // (B,T) int64, -1 where the target does not count
  std::int64_t counted = 0;  // targets that count
};

// Copies.
BatchTensors tensors_of(const TokenBatch& batch);

}  // namespace darkformer
