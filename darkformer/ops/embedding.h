// Scaled token embeddings as a differentiable op on a stored table.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace darkformer::ops {

// y[..., e] = scale weight[ids[...], e].
//   ids (...) int64 or int32; weight (V, E) float32, bfloat16, float16 (-> float32) or float64
//   (-> float64) -> (..., E).
// Differentiable in a float32 or float64 weight: the gradient is dense. An id outside [0, V) is an
// Error that names it.
at::Tensor embedding(const at::Tensor& ids, const at::Tensor& weight, double scale);

}  // namespace darkformer::ops
