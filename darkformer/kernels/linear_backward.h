// The gradients of y = x weight^T, for stored weights as for float32 ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "darkformer/kernels/stored_matrix.h"

namespace darkformer::kernels {

// dx[n][i] <- sum_o dy[n][o] weight[o][i], for n < rows.
//   weight (out,in) stored; dy (rows,out), dx (rows,in) contiguous float32; no aliasing.
// The weight is widened a block of its rows at a time: the scratch is a few MiB. The same thread
// count gives the same bits.
void linear_backward_input(const StoredMatrix& weight,
                           const float* dy,
                           std::size_t rows,
                           float* dx);

// dweight[o][i] <- sum_n dy[n][o] x[n][i].
//   x (rows,in), dy (rows,out), dweight (out,in) contiguous float32; no aliasing.
struct LinearShape {
  std::size_t rows = 0, in = 0, out = 0;
};
void linear_backward_weight(const LinearShape& shape,
                            const float* x,
                            const float* dy,
                            float* dweight);

}  // namespace darkformer::kernels
