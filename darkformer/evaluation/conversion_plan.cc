// A knapsack, filled by falling gain.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/conversion_plan.h"

#include <algorithm>

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

// The places worth considering, by rising bytes and falling error, each step with a smaller gain
// than the one before: the lower convex hull.
std::vector<Place> frontier(std::vector<Place> places) {
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.error2 < b.error2;
  });
  std::vector<Place> hull;
  for (const Place& place : places) {
    if (!hull.empty() && place.error2 >= hull.back().error2) {
      continue;  // larger and no better
    }
    while (hull.size() >= 2 &&
           gain(hull[hull.size() - 2], hull.back()) <= gain(hull.back(), place)) {
      hull.pop_back();
    }
    hull.push_back(place);
  }
  return hull;
}

std::vector<Place> places_of(const AnalysisAdvice::Layer& layer,
                             const GemmaConfig& config,
                             std::int64_t index,
                             bool fixed) {
  const MixerShape shape = mixer_shape(config, index);
  std::vector<Place> places = {{{}, mixer_state_bytes(shape, {}, config.max_positions), 0.0}};
  for (const LayerOption& option : layer.options) {
    if (!fixed) {
      places.push_back({option.spec, mixer_state_bytes(shape, option.spec, config.max_positions),
                        option.error * option.error});
    }
  }
  return frontier(std::move(places));
}

}  // namespace

std::vector<AttentionSpec> plan_layers(const AnalysisAdvice& advice,
                                       const GemmaConfig& config,
                                       const std::vector<bool>& fixed,
                                       const std::optional<std::int64_t>& budget) {
  std::vector<AttentionSpec> plan;
  if (!budget) {
    for (std::size_t i = 0; i < advice.layers.size(); ++i) {
      plan.push_back(fixed[i] ? AttentionSpec{} : advice.layers[i].advice.spec);
    }
    return plan;
  }
  std::vector<std::vector<Place>> layers;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < advice.layers.size(); ++i) {
    layers.push_back(places_of(advice.layers[i], config, static_cast<std::int64_t>(i), fixed[i]));
    bytes += layers.back().front().bytes;
  }
  require(bytes <= *budget, "a budget of ", *budget, " bytes is too small: the smallest state by ",
          advice.file, " takes ", bytes, " bytes at ", config.max_positions, " tokens");
  std::vector<std::size_t> at(layers.size(), 0);
  for (;;) {
    std::size_t best = layers.size();
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const bool more = at[i] + 1 < layers[i].size() &&
                        bytes + layers[i][at[i] + 1].bytes - layers[i][at[i]].bytes <= *budget;
      if (more &&
          (best == layers.size() || gain(layers[i][at[i]], layers[i][at[i] + 1]) >
                                        gain(layers[best][at[best]], layers[best][at[best] + 1]))) {
        best = i;
      }
    }
    if (best == layers.size()) {
      break;
    }
    bytes += layers[best][at[best] + 1].bytes - layers[best][at[best]].bytes;
    ++at[best];
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    plan.push_back(layers[i][at[i]].spec);
  }
  return plan;
}

}  // namespace darkformer
