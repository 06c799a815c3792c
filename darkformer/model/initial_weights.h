// Weights for a model that starts from nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "darkformer/model/parameters.h"

namespace darkformer {

// Norms are the identity (for the norm_unit of the model's family), biases zero, layer scalars one;
// every other weight is normal with this deviation, a function of (seed, name) alone. float32,
// asking for gradients.
ParameterMaker initial_weights(std::uint64_t seed, double deviation = 0.02, double norm_unit = 1);

}  // namespace darkformer
