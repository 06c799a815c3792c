// The gated unit of a feed-forward part as a differentiable op.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "darkformer/base/activation.h"

namespace darkformer::ops {

// y = act(gate) up, with act gelu_tanh(g) = g/2 (1 + tanh(sqrt(2/pi) (g + 0.044715 g^3))) or
// silu(g) = g / (1 + e^-g).
//   gate and up of one shape and type, float32 or float64 -> y alike, contiguous.
// Differentiable in both.
at::Tensor gated_unit(const at::Tensor& gate, const at::Tensor& up, Activation activation);

}  // namespace darkformer::ops
