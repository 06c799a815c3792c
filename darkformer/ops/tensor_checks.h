// What the doors of the ops share: checks of types and shapes, and tensors as the kernels see them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "darkformer/kernels/stored_matrix.h"
#include "darkformer/kernels/token_ids.h"

namespace darkformer::ops {

// "float32 [2, 3]", for messages.
std::string describe(const at::Tensor& tensor);

// Does x go through our kernels (float32 on the CPU)? Otherwise the op is a composition of ATen
// calls in x's own type: float64, which the tests take as the truth, and other devices.
bool takes_kernels(const at::Tensor& x);

// Error, naming the op and the argument, unless x is defined and float32 or float64.
void check_activation(const char* op, const char* name, const at::Tensor& x);
// Error unless the weight is a (rows, cols) matrix of a stored type, or float64, on x's device, and
// asks for a gradient only where it is float32 or float64.
void check_weight_matrix(const char* op, const at::Tensor& weight, const at::Tensor& x);
// Error unless the ids are int32 or int64.
void check_ids(const char* op, const char* name, const at::Tensor& ids);
// Error inside a backward pass that is itself to be differentiated: our kernels have no second
// derivatives.
void check_first_order(const char* op);

// A contiguous matrix or list of ids as the kernels take it; the tensor must outlive it.
kernels::StoredMatrix stored_matrix(const at::Tensor& weight);
kernels::TokenIds token_ids(const at::Tensor& ids);

// The number of rows of x seen as (rows, size(-1)).
std::int64_t row_count(const at::Tensor& x);

}  // namespace darkformer::ops
