// RMSNorm as a differentiable op.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace darkformer::ops {

// y = x (mean_e x^2 + epsilon)^(-1/2) (unit + weight) over the last dimension; unit is 1 for Gemma
// 1 to 3, whose weights are offsets from one, and 0 for other families.
//   x (..., E) float32 or float64, any strides; weight (E) of any float type -> y as x, contiguous.
// Differentiable in x and weight.
at::Tensor rms_norm(const at::Tensor& x,
                    const at::Tensor& weight,
                    double epsilon,
                    double unit = 1.0);

}  // namespace darkformer::ops
