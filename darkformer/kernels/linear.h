// y = x W^T for weights in their stored type, and its gradients: matvec for a few rows, blocks of W
// through gemm else.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "darkformer/kernels/stored_matrix.h"

namespace darkformer::kernels {

// y[n][o] <- sum_i x[n][i] W[o][i], for n < N.
//   W (out,in) stored; x (N,in) and y (N,out) contiguous float32; no aliasing. Sums in float32.
// W is widened a block of rows at a time: the scratch is a few MiB a thread, whatever the size of
// W. Threads share the rows of W. The same thread count gives the same bits.
void linear(const StoredMatrix& W, const float* x, std::size_t N, float* y);

// dx[n][i] <- sum_o dy[n][o] W[o][i].
//   dy (N,out), dx (N,in) contiguous float32; no aliasing. W is widened by blocks as above.
void linear_backward_input(const StoredMatrix& W, const float* dy, std::size_t N, float* dx);

// dW[o][i] <- sum_n dy[n][o] x[n][i], for a float32 weight.
struct LinearShape {
  std::size_t N = 0, in = 0, out = 0;
};
void linear_backward_weight(const LinearShape& shape, const float* x, const float* dy, float* dW);

}  // namespace darkformer::kernels
