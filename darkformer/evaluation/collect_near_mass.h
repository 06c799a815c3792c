// One pass of a model over text that measures the near mass of its layers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "darkformer/model/attention_spec.h"
#include "darkformer/model/near_mass.h"
#include "darkformer/text/evaluation_windows.h"

namespace darkformer {

class Decoder;

// The near mass of every layer, until `tokens` tokens have been read; as collect_moments.
std::vector<std::shared_ptr<NearMass>> collect_near_mass(
    Decoder& model,
    const AttentionSpec& spec,
    const EvaluationWindows& windows,
    std::int64_t tokens,
    const std::function<void(std::int64_t)>& each = {});

}  // namespace darkformer
