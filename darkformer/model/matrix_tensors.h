// The matrices of estimators/ and libtorch's tensors, each as the other; always copies.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "darkformer/estimators/matrix.h"

namespace darkformer {

estimators::Matrix matrix_of(const at::Tensor& x);  // (rows,cols), any type
estimators::Vector vector_of(const at::Tensor& x);  // (n)

// float64, of the given shape.
at::Tensor tensor_of(std::span<const double> values, at::IntArrayRef shape);
at::Tensor tensor_of(std::span<const double> values);    // (n)
at::Tensor tensor_of(const estimators::Matrix& matrix);  // (rows,cols)

}  // namespace darkformer
