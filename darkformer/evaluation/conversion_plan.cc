// A knapsack, filled by falling gain.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/conversion_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/model/attention.h"

namespace darkformer {
namespace {

// Something a layer can be: its bytes, its squared error.
struct Place {
  AttentionSpec spec;
  std::int64_t bytes = 0;
  double error2 = 0.0;
};

double gain(const Place& from, const Place& to) {
  return (from.error2 - to.error2) / static_cast<double>(to.bytes - from.bytes);
}

// The places worth considering, by rising bytes and falling error.
std::vector<Place> frontier(std::vector<Place> places) {
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.error2 < b.error2;
  });
  std::vector<Place> best;
  for (const Place& place : places) {
    if (best.empty() || place.error2 < best.back().error2) {
      best.push_back(place);
    }
  }
  return best;
}

// What a layer can be, with all that share its keys: one state, an error for each of them. Options
// that were not measured in all of them are none.
std::vector<Place> places_of(const AnalysisAdvice& advice,
                             const ModelConfig& config,
                             std::int64_t index,
                             bool fixed) {
  const MixerShape shape = mixer_shape(config, index);
  std::vector<Place> places = {{{}, mixer_state_bytes(shape, {}, config.max_positions), 0.0}};
  for (const LayerOption& option : advice.layers[static_cast<std::size_t>(index)].options) {
    double error2 = option.error * option.error;
    for (const std::int64_t sharer : config.sharers(index)) {
      const auto& others = advice.layers[static_cast<std::size_t>(sharer)].options;
      const auto same = std::find_if(others.begin(), others.end(), [&](const LayerOption& other) {
        return other.spec == option.spec;
      });
      error2 += same == others.end() ? std::numeric_limits<double>::infinity()
                                     : same->error * same->error;
    }
    if (!fixed && std::isfinite(error2)) {
      places.push_back(
          {option.spec, mixer_state_bytes(shape, option.spec, config.max_positions), error2});
    }
  }
  return frontier(std::move(places));
}

// A layer's move to a larger place.
struct Step {
  std::size_t layer = 0, to = 0;
};

// The step with the largest gain for its bytes among all that fit into what is left.
std::optional<Step> best_step(const std::vector<std::vector<Place>>& layers,
                              const std::vector<std::size_t>& at,
                              std::int64_t left) {
  std::optional<Step> best;
  double most = 0.0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Place& from = layers[i][at[i]];
    for (std::size_t j = at[i] + 1; j < layers[i].size(); ++j) {
      const Place& to = layers[i][j];
      if (to.bytes - from.bytes <= left && gain(from, to) > most) {
        best = {i, j}, most = gain(from, to);
      }
    }
  }
  return best;
}

}  // namespace

std::vector<AttentionSpec> plan_layers(const AnalysisAdvice& advice,
                                       const ModelConfig& config,
                                       const std::vector<bool>& fixed,
                                       const std::optional<std::int64_t>& budget) {
  std::vector<AttentionSpec> plan(advice.layers.size());
  const auto give = [&](std::size_t layer, const AttentionSpec& spec) {
    plan[layer] = spec;
    for (const std::int64_t sharer : config.sharers(static_cast<std::int64_t>(layer))) {
      plan[static_cast<std::size_t>(sharer)] = spec;
    }
  };
  // Layers that share the keys of an earlier one get what that one gets.
  const auto owners = static_cast<std::size_t>(config.layers - config.shared_layers);
  if (!budget) {
    for (std::size_t i = 0; i < owners; ++i) {
      give(i, fixed[i] ? AttentionSpec{} : advice.layers[i].advice.spec);
    }
    return plan;
  }
  std::vector<std::vector<Place>> layers;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < owners; ++i) {
    layers.push_back(places_of(advice, config, static_cast<std::int64_t>(i), fixed[i]));
    bytes += layers.back().front().bytes;
  }
  require(bytes <= *budget, "a budget of ", count_text(*budget, "byte"),
          " is too small: the smallest state by ", advice.file, " takes ",
          count_text(bytes, "byte"), " at ", count_text(config.max_positions, "token"));
  std::vector<std::size_t> at(layers.size(), 0);
  while (const auto step = best_step(layers, at, *budget - bytes)) {
    bytes += layers[step->layer][step->to].bytes - layers[step->layer][at[step->layer]].bytes;
    at[step->layer] = step->to;
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    give(i, layers[i][at[i]].spec);
  }
  return plan;
}

}  // namespace darkformer
