// The walk: look at a layer, convert it, fit it, go on.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/conversion/model_fit.h"

#include <algorithm>

#include "darkformer/conversion/layer_walk.h"
#include "darkformer/model/decoder.h"

namespace darkformer {

std::vector<RowFit> fit_model(Decoder& model,
                              const at::Tensor& ids,
                              const std::vector<std::int64_t>& layers,
                              const ModelFitOptions& options,
                              const ModelFitHooks& hooks) {
  LayerWalk walk(model, ids);
  std::vector<RowFit> fits;
  while (walk.layer() <= layers.back()) {
    const std::int64_t layer = walk.layer();
    RowExamples examples = walk.look();
    examples.held = options.held;
    if (!std::binary_search(layers.begin(), layers.end(), layer)) {
      walk.pass();
      continue;
    }
    hooks.convert(layer, examples);
    const std::int64_t owner = model.config().key_layer(layer);
    fits.push_back(fit_layer(*model.block(layer)->attention()->mixer(),
                             owner == layer ? nullptr : model.block(owner)->attention()->mixer().get(),
                             mixer_shape(model.config(), layer),
                             model.config().attention[static_cast<std::size_t>(layer)], examples,
                             options.rows, [&] {
                               if (hooks.advance) {
                                 hooks.advance(1);
                               }
                             }));
    options.inputs == FitInputs::kOriginal ? walk.pass() : walk.run_again();
  }
  return fits;
}

}  // namespace darkformer
