// The walk: look at a layer, convert it, fit it, go on.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/conversion/model_fit.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "darkformer/conversion/fit_store.h"
#include "darkformer/conversion/layer_walk.h"
#include "darkformer/model/decoder.h"

namespace darkformer {
namespace {

// The layer's fit, from the store where it was done before.
RowFit fit_of(Decoder& model,
              std::int64_t layer,
              const RowExamples& examples,
              const ModelFitOptions& options,
              const std::function<void(std::int64_t)>& advance) {
  const auto mixer_of = [&](std::int64_t i) { return model.block(i)->attention()->mixer().get(); };
  const AttentionSpec& spec = model.config().attention[static_cast<std::size_t>(layer)];
  const MixerShape shape = mixer_shape(model.config(), layer);
  const std::int64_t owner = model.config().key_layer(layer);
  if (options.store != nullptr) {
    if (const auto kept = options.store->load(layer, *mixer_of(layer))) {
      advance(options.rows.steps * fitted_groups(shape, spec));
      return *kept;
    }
  }
  const RowFit fit = fit_layer(*mixer_of(layer), owner == layer ? nullptr : mixer_of(owner), shape,
                               spec, examples, options.rows, [&] { advance(1); });
  if (options.store != nullptr) {
    options.store->save(layer, *mixer_of(layer), fit);
  }
  return fit;
}

}  // namespace

std::vector<RowFit> fit_model(Decoder& model,
                              const at::Tensor& ids,
                              const std::vector<std::int64_t>& layers,
                              const ModelFitOptions& options,
                              const ModelFitHooks& hooks) {
  const auto advance = [&](std::int64_t steps) {
    if (hooks.advance) {
      hooks.advance(steps);
    }
  };
  const auto watch = [&] { advance(0); };
  LayerWalk walk(model, ids);
  std::vector<RowFit> fits;
  while (walk.layer() <= layers.back()) {
    const std::int64_t layer = walk.layer();
    RowExamples examples = walk.look(watch);
    if (!std::binary_search(layers.begin(), layers.end(), layer)) {
      walk.pass();
      continue;
    }
    examples.held = options.held;
    hooks.convert(layer, examples);
    fits.push_back(fit_of(model, layer, examples, options, advance));
    if (layer == layers.back()) {
      break;  // nobody reads what it makes of the text
    }
    walk.run_again(watch);
  }
  return fits;
}

std::vector<std::int64_t> worst_layers(const ModelConfig& config,
                                       const std::vector<std::int64_t>& layers,
                                       const std::vector<RowFit>& fits,
                                       std::size_t count) {
  std::map<std::int64_t, std::vector<double>> heads;  // of each owner and those that share its keys
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::vector<double>& own = heads[config.key_layer(layers[i])];
    own.insert(own.end(), fits[i].after.begin(), fits[i].after.end());
  }
  std::vector<std::pair<double, std::int64_t>> order;
  for (const auto& [layer, kl] : heads) {
    const double mean = std::accumulate(kl.begin(), kl.end(), 0.0) / static_cast<double>(kl.size());
    order.emplace_back(-mean, layer);
  }
  std::sort(order.begin(), order.end());
  std::vector<std::int64_t> worst;
  for (std::size_t i = 0; i < std::min(count, order.size()); ++i) {
    worst.push_back(order[i].second);
  }
  return worst;
}

}  // namespace darkformer
