// The rule behind a recommendation.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/evaluation/layer_analysis.h"

namespace darkformer {
namespace {

// Above this error what a layer says is mostly noise, and training starts from next to nothing.
constexpr double kUsable = 0.5;
// An option this much worse than the best is taken if its state is smaller.
constexpr double kNearlyBest = 1.1;

std::string percent(double error) {
  const double value = 100.0 * error;
  return concat(value < 10.0 ? std::round(value * 10.0) / 10.0 : std::round(value), " %");
}

// Numbers a state keeps for each value: features, and keys with their values.
std::int64_t state_rows(const AttentionSpec& spec) {
  return spec.features + 2 * (spec.window + spec.sinks);
}

std::string words(const AttentionSpec& spec) {
  std::string text =
      concat(attention_kind_name(spec.kind), " with ", count_text(spec.features, "feature"));
  return text + (spec.window > 0 ? concat(" and a window of ", spec.window) : "");
}

// The smallest state among the options that are good enough, or null.
const LayerOption* smallest(const std::vector<LayerOption>& options,
                            const std::function<bool(const LayerOption&)>& good) {
  const LayerOption* found = nullptr;
  for (const LayerOption& option : options) {
    if (good(option) &&
        (!found || state_rows(option.spec) < state_rows(found->spec) ||
         (state_rows(option.spec) == state_rows(found->spec) && option.error < found->error))) {
      found = &option;
    }
  }
  return found;
}

double least_error(const std::vector<LayerOption>& options, bool trainable) {
  double least = std::numeric_limits<double>::infinity();
  for (const LayerOption& option : options) {
    if (!trainable || option.spec.kind == AttentionKind::kDark) {
      least = std::min(least, option.error);
    }
  }
  return least;
}

}  // namespace

LayerAdvice advise(const LayerAnalysis& layer, double target) {
  if (layer.sliding_window > 0) {
    return {{},
            0.0,
            true,
            concat("it has a sliding window of ", count_text(layer.sliding_window, "key"),
                   ": its state does not grow with the text")};
  }
  const LayerOption* good =
      smallest(layer.options, [&](const LayerOption& o) { return o.error <= target; });
  if (good != nullptr) {
    return {good->spec, good->error, true,
            concat(words(good->spec), " is off by ", percent(good->error), " without training")};
  }
  const double best = least_error(layer.options, false), start = least_error(layer.options, true);
  if (!(start <= kUsable)) {
    return {{},
            0.0,
            true,
            concat("nothing that was tried comes near: the best is off by ", percent(best),
                   ", the mean of the values by ", percent(layer.constant_error))};
  }
  const LayerOption* chosen = smallest(layer.options, [&](const LayerOption& o) {
    return o.spec.kind == AttentionKind::kDark && o.error <= kNearlyBest * start;
  });
  return {chosen->spec, chosen->error, false,
          concat("nothing reaches ", percent(target), " without training (the best is off by ",
                 percent(best), "): ", words(chosen->spec), " starts at ", percent(chosen->error),
                 " and is to be finetuned")};
}

}  // namespace darkformer
