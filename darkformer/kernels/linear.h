// y = x weight^T for stored weights: matvec for a few rows of x, else gemm on widened blocks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "darkformer/kernels/stored_matrix.h"

namespace darkformer::kernels {

// y[n][o] <- sum_i x[n][i] weight[o][i], for n < rows.
//   weight (out,in) stored; x (rows,in) and y (rows,out) contiguous float32; no aliasing.
// Sums in float32. The weight is widened a block of its rows at a time: the scratch is a few MiB a
// thread, whatever its size. Threads share its rows. The same thread count gives the same bits.
void linear(const StoredMatrix& weight, const float* x, std::size_t rows, float* y);

}  // namespace darkformer::kernels
