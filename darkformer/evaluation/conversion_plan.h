// Which attention each layer gets, by an analysis and a budget of decoding state.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "darkformer/evaluation/analysis_file.h"
#include "darkformer/model/model_config.h"

namespace darkformer {

// One attention a layer. Without a budget the advice; with one, each layer gets an option of
// the analysis or exact attention, so that the state of one sequence of the longest text
// (config.max_positions) takes at most `budget` bytes and the sum of squared measured errors is
// small: layers are improved one step at a time, where it gains most for its bytes. Layers with
// `fixed` (one flag a layer) stay exact, whatever that costs.
// Error: a budget below the smallest possible state, which it names.
std::vector<AttentionSpec> plan_layers(const AnalysisAdvice& advice,
                                       const ModelConfig& config,
                                       const std::vector<bool>& fixed,
                                       const std::optional<std::int64_t>& budget);

}  // namespace darkformer
