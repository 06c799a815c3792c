// Fitting converted layers to the model they come from, one after the other, without a gradient
// through it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "darkformer/conversion/layer_fit.h"

namespace darkformer {

class Decoder;

// Whose hidden states the layers read while they are fitted.
enum class FitInputs : std::uint8_t {
  kOriginal,   // the model's as it was
  kConverted,  // those that the converted layers below make of the text
};

struct ModelFitOptions {
  RowFitOptions rows;
  FitInputs inputs = FitInputs::kOriginal;
  std::int64_t held = 4;  // windows that are only measured on
};

struct ModelFitHooks {
  // Gives the layer its new attention, from what it reads.
  std::function<void(std::int64_t layer, const RowExamples& examples)> convert;
  std::function<void(std::int64_t steps)> advance = {};  // from any thread; may throw to stop
};

// ids (W,T): windows of text. `layers`: those that are converted, rising. The fit of each.
std::vector<RowFit> fit_model(Decoder& model,
                              const at::Tensor& ids,
                              const std::vector<std::int64_t>& layers,
                              const ModelFitOptions& options,
                              const ModelFitHooks& hooks);

}  // namespace darkformer
