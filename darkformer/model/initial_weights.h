// Weights for a model that starts from nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "darkformer/model/parameters.h"

namespace darkformer {

// Norms are the identity (w = 0); every other weight is normal with this deviation, a function of
// (seed, name) alone. float32, asking for gradients.
ParameterMaker initial_weights(std::uint64_t seed, double deviation = 0.02);

}  // namespace darkformer
