// The activations of gated feed-forward parts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace darkformer {

// act(g) = g sigmoid(a), with
//   gelu_tanh  a = 2 sqrt(2/pi) (g + 0.044715 g^3), which is g/2 (1 + tanh(a/2))   (Gemma)
//   silu       a = g                                                               (Llama, Qwen)
enum class Activation : std::uint8_t { kGeluTanh, kSilu };

}  // namespace darkformer
