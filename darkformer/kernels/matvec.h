// y = weight x for weights in their stored type and a few vectors: the heart of decoding.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "darkformer/kernels/stored_matrix.h"

namespace darkformer::kernels {

// Up to this many vectors, reading the weight once beats widening it for a packed product.
inline constexpr std::size_t kMatvecVectors = 16;

// y[n][o] <- sum_i weight[o][i] x[n][i], for n < vectors.
//   weight (out,in) stored; x (vectors,in) and y (vectors,out) contiguous float32; no aliasing.
// Sums in float32. Right for any number of vectors, meant for at most kMatvecVectors: it is then
// bound by reading the weight once from memory. Threads share the rows of the weight. Each y[n][o]
// is one sum in a fixed order: the same bits for every thread count and every number of vectors.
void matvec(const StoredMatrix& weight, const float* x, std::size_t vectors, float* y);

// The same in double, in plain loops.
void matvec_ref(const StoredMatrix& weight, const float* x, std::size_t vectors, double* y);

}  // namespace darkformer::kernels
