// Gemma's gated unit, gelu_tanh(gate) * up, forward and backward.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace darkformer::kernels {

// y <- gelu(gate) up, with gelu(g) = g/2 (1 + tanh z), z = sqrt(2/pi) (g + 0.044715 g^3).
// Computed as g sigmoid(2z), which keeps its relative precision in the negative tail:
//   relative error <= eps (6 + 4 |2z|), eps = 2^-23 (the argument of exp rounds too).
// All arrays hold `count` values; y may be gate or up. Threads share the values.
void geglu(std::size_t count, const float* gate, const float* up, float* y);

// With s = sigmoid(2z):
//   dgate <- dy up (s + g s (1 - s) 2z'),  2z' = 2 sqrt(2/pi) (1 + 3 * 0.044715 g^2)
//   dup   <- dy g s
// dgate and dup may be any two of gate, up and dy.
void geglu_backward(std::size_t count,
                    const float* gate,
                    const float* up,
                    const float* dy,
                    float* dgate,
                    float* dup);

// The same in double.
void geglu_ref(std::size_t count, const float* gate, const float* up, double* y);
void geglu_backward_ref(std::size_t count,
                        const float* gate,
                        const float* up,
                        const float* dy,
                        double* dgate,
                        double* dup);

}  // namespace darkformer::kernels
