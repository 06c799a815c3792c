// The learned softmax features of Hedgehog as inputs of feature attention, and the way back.
// SPDX-License-Identifier: Apache-2.0
//
// phi(x) = [softmax(W x), softmax(-W x)] with W (R,D): F = 2 R features. Feature attention takes
// logarithms that are linear in a row, and these are so in a row with two more values:
//   x' = [x, e+, e-],   e+ = -log2 sum_j exp(W_j . x),   e- = -log2 sum_j exp(-W_j . x)
//   log2 phi_j = [log2(e) W_j, 1, 0] . x'   and   [-log2(e) W_j, 0, 1] . x'
#pragma once

#include <vector>

#include "darkformer/kernels/dark_attention.h"

namespace darkformer::kernels {

// The size of x'.
inline std::size_t softmax_row(const DarkAttention& shape) {
  return shape.D + 2;
}

// The queries or the keys of a call.
struct SoftmaxSide {
  HeadsView<const float> x;          // (B,sources,rows,D)
  const float* map;                  // W (N,R,D)
  std::size_t sources, heads, rows;  // of `heads` heads, i reads source i sources / heads and uses
                                     // the map of group i N / heads
};
SoftmaxSide softmax_queries(const DarkAttention& shape, const DarkInputs& in);  // H heads
SoftmaxSide softmax_keys(const DarkAttention& shape, const DarkInputs& in);     // N heads

// rows (B,heads,rows,D+2) <- x'; draws (N,F,D+2) <- what x' is multiplied by.
void softmax_features(const DarkAttention& shape,
                      const SoftmaxSide& side,
                      std::vector<float>& rows,
                      std::vector<float>& draws);

// Back from the gradients of x' (as of `rows`) and of the draws (empty: that of W is not wanted):
// dx (B,heads,rows,D) and d_map (N,R,D) are overwritten.
void softmax_features_backward(const DarkAttention& shape,
                               const SoftmaxSide& side,
                               const std::vector<float>& rows,
                               const std::vector<float>& d_rows,
                               const std::vector<float>& d_draws,
                               float* dx,
                               float* d_map);

// logs (2R) <- log2 phi of one row, from its logits W x (R).
void softmax_logs(const float* logits, std::size_t R, float* logs);

}  // namespace darkformer::kernels
