// The rotation of each pair by position times frequency, in double.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "darkformer/kernels/rotary.h"

namespace darkformer::kernels {

void rotary_ref(const RotaryShape& shape,
                const std::vector<double>& frequencies,
                const float* x,
                double direction,
                double* y) {
  const std::size_t half = shape.D / 2;
  for (std::size_t row = 0; row < shape.B * shape.H * shape.T; ++row) {
    const std::size_t t = row % shape.T;
    const double position = shape.positions != nullptr ? static_cast<double>(shape.positions[t])
                                                       : static_cast<double>(shape.start + t);
    for (std::size_t i = 0; i < half; ++i) {
      const double angle = direction * position * frequencies[i];
      const double first = x[row * shape.D + i], second = x[row * shape.D + half + i];
      y[row * shape.D + i] = first * std::cos(angle) - second * std::sin(angle);
      y[row * shape.D + half + i] = first * std::sin(angle) + second * std::cos(angle);
    }
  }
}

}  // namespace darkformer::kernels
