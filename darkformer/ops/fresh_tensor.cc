// Allocated, hinted at, not touched.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/ops/fresh_tensor.h"

#include <ATen/ops/empty.h>

#include "darkformer/base/memory.h"

namespace darkformer::ops {

at::Tensor fresh_tensor(at::IntArrayRef sizes, const at::TensorOptions& options) {
  at::Tensor x = at::empty(sizes, options);
  if (x.is_cpu()) {
    prefer_huge_pages(x.data_ptr(), x.nbytes());
  }
  return x;
}

at::Tensor fresh_tensor_like(const at::Tensor& x) {
  return fresh_tensor(x.sizes(), x.options());
}

}  // namespace darkformer::ops
