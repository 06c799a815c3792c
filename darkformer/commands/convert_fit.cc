// From options and text to fitted layers.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/convert_fit.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <mutex>

#include "darkformer/base/error.h"
#include "darkformer/commands/data_files.h"
#include "darkformer/commands/model_options.h"
#include "darkformer/evaluation/batch_tensors.h"
#include "darkformer/model/decoder.h"
#include "darkformer/text/evaluation_windows.h"

namespace darkformer {
namespace {

constexpr double kHeldShare = 0.1;  // of the windows, at least one, to measure on

// (W,T): whole windows, spread evenly over the text.
at::Tensor fit_windows(const ConvertOptions& o, const Decoder& model, const Context& context) {
  const Tokenizer tokenizer = load_tokenizer(o.model, model.config());
  const Shards shards =
      open_data(o.data, o.cache.value_or(std::filesystem::path()), tokenizer, context);
  const std::int64_t most = std::min(o.fit_context, model.config().max_positions);
  const EvaluationWindows windows(shards, most);
  const std::int64_t whole = windows.whole();
  require(whole >= 2, "--fit: the text has ", windows.tokens(), " tokens; wanted at least ",
          2 * most, ", two windows of --fit-context");
  const std::int64_t count = std::clamp<std::int64_t>(o.fit_tokens / most, 2, whole);
  std::vector<at::Tensor> rows;
  for (std::int64_t i = 0; i < count; ++i) {
    rows.push_back(tensors_of(windows.read_batch(i * whole / count, 1)).inputs);
  }
  return at::cat(rows);
}

std::vector<FitPart> fit_parts(const ConvertOptions& o) {
  std::vector<FitPart> parts;
  for (const std::string& word : o.fit_what) {
    parts.push_back(word == "factor"    ? FitPart::kFactor
                    : word == "draws"   ? FitPart::kDraws
                    : word == "weights" ? FitPart::kWeights
                    : word == "centres" ? FitPart::kCentres
                                        : FitPart::kGate);
  }
  return parts;
}

}  // namespace

bool fits(const ConvertOptions& o, const Context&) {
  return o.fit;
}

std::vector<RowFit> fit_layers(
    const ConvertOptions& o,
    const std::vector<std::int64_t>& layers,
    Decoder& model,
    const std::function<void(std::int64_t, const RowExamples&)>& convert,
    Context& context) {
  const at::Tensor ids = fit_windows(o, model, context);
  ModelFitOptions options;
  options.rows = {.parts = fit_parts(o), .steps = o.fit_steps, .batch = o.fit_batch, .rate = o.fit_rate};
  options.inputs = o.fit_inputs == "original" ? FitInputs::kOriginal : FitInputs::kConverted;
  options.held = std::max<std::int64_t>(1, static_cast<std::int64_t>(kHeldShare * static_cast<double>(ids.size(0))));
  std::int64_t groups = 0;
  for (const std::int64_t layer : layers) {
    groups += o.placement == "layer" ? 1 : model.config().kv_heads_of(layer);
  }
  Progress progress = context.progress("fitting", groups * o.fit_steps, "steps");
  std::mutex mutex;
  return fit_model(model, ids, layers, options,
                   {convert, [&](std::int64_t steps) {
                      const std::lock_guard lock(mutex);
                      context.stop_if_interrupted("stopped; nothing was written");
                      progress.advance(steps);
                    }});
}

}  // namespace darkformer
