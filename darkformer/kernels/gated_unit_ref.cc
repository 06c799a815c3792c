// The gated unit by its definition, in double.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <numbers>

#include "darkformer/kernels/gated_unit.h"

namespace darkformer::kernels {
namespace {

// a and a' of act(g) = g sigmoid(a)
struct Argument {
  double value, slope;
};

Argument argument_of(Activation activation, double g) {
  if (activation == Activation::kSilu) {
    return {g, 1.0};
  }
  constexpr double kCubicTerm = 0.044715;
  const double root = 2.0 * std::sqrt(2.0 / std::numbers::pi);
  return {root * (g + kCubicTerm * g * g * g), root * (1.0 + 3.0 * kCubicTerm * g * g)};
}

}  // namespace

void gated_unit_ref(
    Activation activation, std::size_t count, const float* gate, const float* up, double* y) {
  for (std::size_t i = 0; i < count; ++i) {
    const double g = gate[i];
    y[i] = g / (1.0 + std::exp(-argument_of(activation, g).value)) * up[i];
  }
}

void gated_unit_backward_ref(Activation activation,
                             std::size_t count,
                             const float* gate,
                             const float* up,
                             const float* dy,
                             double* dgate,
                             double* dup) {
  for (std::size_t i = 0; i < count; ++i) {
    const double g = gate[i];
    const Argument a = argument_of(activation, g);
    // sigmoid(a) = (1 + t) / 2 and its derivative (1 - t^2) / 4, with t = tanh(a / 2)
    const double t = std::tanh(0.5 * a.value);
    dgate[i] = dy[i] * up[i] * (0.5 * (1.0 + t) + 0.25 * g * (1.0 - t * t) * a.slope);
    dup[i] = dy[i] * 0.5 * g * (1.0 + t);
  }
}

}  // namespace darkformer::kernels
