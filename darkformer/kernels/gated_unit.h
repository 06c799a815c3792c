// The gated unit of a feed-forward part, act(gate) * up, forward and backward.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "darkformer/base/activation.h"

namespace darkformer::kernels {

// y <- act(gate) up, with act(g) = g sigmoid(a) of base/activation.h. The sigmoid keeps its
// relative precision in the negative tail:
//   relative error <= eps (6 + 4 |a|), eps = 2^-23 (the argument of exp rounds too).
// All arrays hold `count` values; y may be gate or up. Threads share the values.
void gated_unit(
    Activation activation, std::size_t count, const float* gate, const float* up, float* y);

// With s = sigmoid(a):
//   dgate <- dy up (s + g s (1 - s) a')
//   dup   <- dy g s
// dgate and dup may be any two of gate, up and dy.
void gated_unit_backward(Activation activation,
                         std::size_t count,
                         const float* gate,
                         const float* up,
                         const float* dy,
                         float* dgate,
                         float* dup);

// The same in double.
void gated_unit_ref(
    Activation activation, std::size_t count, const float* gate, const float* up, double* y);
void gated_unit_backward_ref(Activation activation,
                             std::size_t count,
                             const float* gate,
                             const float* up,
                             const float* dy,
                             double* dgate,
                             double* dup);

}  // namespace darkformer::kernels
