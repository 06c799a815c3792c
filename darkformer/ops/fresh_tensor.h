// Tensors that a kernel is about to fill.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace darkformer::ops {

// at::empty on huge pages where that pays (base/memory.h): the first touch of 4096 bytes at a time
// took a sixth of a long attention.
at::Tensor fresh_tensor(at::IntArrayRef sizes, const at::TensorOptions& options);
at::Tensor fresh_tensor_like(const at::Tensor& x);  // its sizes and type; contiguous

}  // namespace darkformer::ops
