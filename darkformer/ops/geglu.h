// Gemma's gated unit as a differentiable op.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace darkformer::ops {

// y = gelu_tanh(gate) up, with gelu_tanh(g) = g/2 (1 + tanh(sqrt(2/pi) (g + 0.044715 g^3))).
//   gate and up of one shape and type, float32 or float64 -> y alike, contiguous.
// Differentiable in both.
at::Tensor geglu(const at::Tensor& gate, const at::Tensor& up);

}  // namespace darkformer::ops
