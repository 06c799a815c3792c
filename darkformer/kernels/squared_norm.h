// The sum of squares of an array, for gradient clipping.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace darkformer::kernels {

// sum_i x_i^2 in double: squares of float32 are exact in double, so only the additions round
// (relative error below 1e-13 for 2^40 values). Sums run over blocks of a fixed size, which are
// added in order: the bits do not depend on the thread count. Infinity and NaN come through.
double squared_norm(const float* x, std::size_t count);

double squared_norm_ref(const float* x, std::size_t count);

}  // namespace darkformer::kernels
