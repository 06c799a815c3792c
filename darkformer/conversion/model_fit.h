// Fitting converted layers to the model they come from, one after the other, without a gradient
// through it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "darkformer/conversion/layer_fit.h"

namespace darkformer {

class Decoder;
class FitStore;
struct ModelConfig;

struct ModelFitOptions {
  RowFitOptions rows;
  std::int64_t held = 1;            // of the windows, the last ones, which are only measured on
  const FitStore* store = nullptr;  // where fitted layers are kept; null: nowhere
};

struct ModelFitHooks {
  // Gives the layer its new attention, from what it reads.
  std::function<void(std::int64_t layer, const RowExamples& examples)> convert;
  // Steps of heads that have been done, from any thread; may throw to stop.
  std::function<void(std::int64_t steps)> advance = {};
};

// ids (W,T): windows of text. `layers`: those that are converted, rising. The fit of each.
// A layer reads what the converted layers below it make of the text, as it will when the model
// runs: a little better than what the original makes of it (experiments/real). Memory beyond the
// model: hidden states of the windows, and queries, keys and values of one layer.
std::vector<RowFit> fit_model(Decoder& model,
                              const at::Tensor& ids,
                              const std::vector<std::int64_t>& layers,
                              const ModelFitOptions& options,
                              const ModelFitHooks& hooks);

// Of the fitted layers the `count` whose rows are furthest from exact attention, the furthest first,
// by the mean row KL of their heads. Layers that share keys count as one, that of the owner.
std::vector<std::int64_t> worst_layers(const ModelConfig& config,
                                       const std::vector<std::int64_t>& layers,
                                       const std::vector<RowFit>& fits,
                                       std::size_t count);

}  // namespace darkformer
