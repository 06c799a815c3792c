// y = W x for weights in their stored type and a few vectors: the heart of decoding.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "darkformer/kernels/stored_matrix.h"

namespace darkformer::kernels {

// The most vectors for which reading W once with matvec beats a packed product (matvec_bench).
inline constexpr std::size_t kMatvecVectors = 8;

// y[n][o] <- sum_i W[o][i] x[n][i], for n < N.
//   W (out,in) stored; x (N,in) and y (N,out) contiguous float32; no aliasing. Sums in float32.
// Meant for N <= kMatvecVectors (right for any N): bound by reading W once from memory.
// Threads share the rows of W. Each y[n][o] is one sum in a fixed order: the same bits for every
// thread count and every N.
void matvec(const StoredMatrix& W, const float* x, std::size_t N, float* y);

// The same in double, in plain loops.
void matvec_ref(const StoredMatrix& W, const float* x, std::size_t N, double* y);

}  // namespace darkformer::kernels
