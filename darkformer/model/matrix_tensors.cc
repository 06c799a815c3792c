// Copies of values.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/matrix_tensors.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace darkformer {

using at::Tensor;

estimators::Matrix matrix_of(const Tensor& x) {
  const Tensor values = x.detach().to(at::kDouble).contiguous();
  estimators::Matrix a(static_cast<std::size_t>(x.size(0)), static_cast<std::size_t>(x.size(1)));
  std::copy_n(values.data_ptr<double>(), values.numel(), a.values().begin());
  return a;
}

estimators::Vector vector_of(const Tensor& x) {
  const estimators::Matrix row = matrix_of(x.unsqueeze(0));
  return {row.values().begin(), row.values().end()};
}

Tensor tensor_of(std::span<const double> values, at::IntArrayRef shape) {
  // from_blob takes a mutable pointer, but nothing is written through it.
  return at::from_blob(const_cast<double*>(values.data()), shape, at::kDouble).clone();
}

Tensor tensor_of(std::span<const double> values) {
  return tensor_of(values, {static_cast<std::int64_t>(values.size())});
}

Tensor tensor_of(const estimators::Matrix& matrix) {
  return tensor_of(matrix.values(), {static_cast<std::int64_t>(matrix.rows()),
                                     static_cast<std::int64_t>(matrix.cols())});
}

}  // namespace darkformer
