// y = x W^T as a differentiable op on weights in their stored type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace darkformer::ops {

// y[..., o] = sum_i x[..., i] weight[o, i].
//   x (..., in) float32 or float64, any strides; weight (out, in) float32, bfloat16 or float16,
//   which is widened block by block and never as a whole -> (..., out) as x, contiguous.
// Differentiable in x, and in a float32 weight that asks for it; a 16-bit weight is frozen.
// Products run on kernels/linear and kernels/gemm.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight);

}  // namespace darkformer::ops
