// A model with its weights in a smaller type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

namespace darkformer {

class Gemma;

// Weights in bfloat16, rounded to nearest; the parameters of converted attention stay as they are.
std::shared_ptr<Gemma> bfloat16_copy(const Gemma& model);

}  // namespace darkformer
