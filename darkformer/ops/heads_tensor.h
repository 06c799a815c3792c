// Tensors as the kernels see them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "darkformer/kernels/heads_view.h"
#include "darkformer/ops/libtorch.h"

namespace darkformer::ops {

// A float32 CPU tensor (B,H,T,D) of any strides.
inline kernels::HeadsView<const float> heads_view(const at::Tensor& x) {
  return {x.data_ptr<float>(), x.stride(0), x.stride(1), x.stride(2), x.stride(3)};
}
inline kernels::HeadsView<float> heads_view_of_output(const at::Tensor& x) {
  return {x.data_ptr<float>(), x.stride(0), x.stride(1), x.stride(2), x.stride(3)};
}

// Parameters are read as contiguous arrays; the tensor returned keeps the memory alive.
inline at::Tensor contiguous_or_undefined(const Optional<at::Tensor>& x) {
  return x && x->defined() ? x->contiguous() : at::Tensor();
}
inline const float* pointer_or_null(const at::Tensor& x) {
  return x.defined() ? x.data_ptr<float>() : nullptr;
}

}  // namespace darkformer::ops
