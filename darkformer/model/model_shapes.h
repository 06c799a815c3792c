// The released sizes of Gemma by name, for questions about a model that is not at hand.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "darkformer/model/model_config.h"

namespace darkformer {

// "gemma-2b", "gemma-3-1b", ...: bfloat16 weights, exact attention. Nothing: not a released size.
std::optional<ModelConfig> find_model_shape(std::string_view name);
// "gemma-2b, gemma-7b, ...", for messages.
std::string model_shape_names();

}  // namespace darkformer
