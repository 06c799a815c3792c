// The gated unit by its definition, in double.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <numbers>

#include "darkformer/kernels/geglu.h"

namespace darkformer::kernels {
namespace {

const double root_two_over_pi = std::sqrt(2.0 / std::numbers::pi);
constexpr double kCubic = 0.044715;

}  // namespace

void geglu_ref(std::size_t count, const float* gate, const float* up, double* y) {
  for (std::size_t i = 0; i < count; ++i) {
    const double g = gate[i];
    const double z = root_two_over_pi * (g + kCubic * g * g * g);
    // (1 + tanh z) / 2 = 1 / (1 + e^-2z), the form without cancellation for z << 0
    y[i] = g / (1.0 + std::exp(-2.0 * z)) * up[i];
  }
}

void geglu_backward_ref(std::size_t count,
                        const float* gate,
                        const float* up,
                        const float* dy,
                        double* dgate,
                        double* dup) {
  for (std::size_t i = 0; i < count; ++i) {
    const double g = gate[i];
    const double t = std::tanh(root_two_over_pi * (g + kCubic * g * g * g));
    const double dz = root_two_over_pi * (1.0 + 3.0 * kCubic * g * g);
    // gelu' = (1 + t) / 2 + g / 2 (1 - t^2) z'
    dgate[i] = dy[i] * up[i] * (0.5 * (1.0 + t) + 0.5 * g * (1.0 - t * t) * dz);
    dup[i] = dy[i] * 0.5 * g * (1.0 + t);
  }
}

}  // namespace darkformer::kernels
