// One pass of a model over text that collects the moments of its queries and keys.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "darkformer/model/model_config.h"
#include "darkformer/model/moments.h"
#include "darkformer/text/evaluation_windows.h"

namespace darkformer {

class Decoder;

// Nothing read yet, for each layer.
std::vector<std::shared_ptr<LayerMoments>> empty_moments(const ModelConfig& config);

// Moments of every layer over the windows, until `tokens` tokens have been read. Memory does not
// grow with the text. `each` is called with the tokens read so far; what it throws ends the pass.
std::vector<std::shared_ptr<LayerMoments>> collect_moments(
    Decoder& model,
    const EvaluationWindows& windows,
    std::int64_t tokens,
    const std::function<void(std::int64_t)>& each = {});

}  // namespace darkformer
