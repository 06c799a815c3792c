// A model with its weights in a smaller type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

namespace darkformer {

class Decoder;

// Weights in bfloat16, rounded to nearest; the parameters of converted attention stay as they are.
std::shared_ptr<Decoder> bfloat16_copy(const Decoder& model);

}  // namespace darkformer
