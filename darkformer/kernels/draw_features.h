// Random draws for positive features: independent or in orthogonal blocks, a pure function of
// (seed, stream, index).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace darkformer::kernels {

struct DrawShape {
  std::size_t groups = 0, features = 0, rank = 0;  // N, F, R
  std::uint64_t seed = 0;
  std::uint32_t stream = 0;  // the layer
  std::uint32_t index = 0;   // the redraw
  bool orthogonal = true;
};

// draws (N,F,R), each row distributed as N(0, I_R). Orthogonal: within each block of R rows the
// directions are orthonormal and Haar distributed, with lengths redrawn as chi(R), so that every
// single row is still N(0, I_R). Computed in double; the same bits for the same shape on every
// thread count.
void draw_features(const DrawShape& shape, float* draws);

}  // namespace darkformer::kernels
