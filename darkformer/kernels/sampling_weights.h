// Weights to draw a token by: exponentials of logits, and their sums by block, in which a draw is
// found without walking over the whole vocabulary.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace darkformer::kernels {

inline constexpr std::size_t kWeightBlock = 256;
constexpr std::size_t weight_blocks(std::size_t count) {
  return (count + kWeightBlock - 1) / kWeightBlock;
}

// w[i] <- exp((x[i] - max x) / temperature); sums[b] <- the sum of w over block b of kWeightBlock.
//   x finite or minus infinity; temperature > 0; no aliasing. Where an x is NaN, or the largest is
//   infinite, a sum is NaN.
// The argument a of each exp is rounded to float32, so that the relative error of w is below
// 2e-7 (2 + |a|); weights below 1e-38 may be 0. Sums in double. On the calling thread alone.
void sampling_weights(const float* x, std::size_t count, float temperature, float* w, double* sums);

// The same in double, in plain loops.
void sampling_weights_ref(
    const float* x, std::size_t count, float temperature, double* w, double* sums);

}  // namespace darkformer::kernels
