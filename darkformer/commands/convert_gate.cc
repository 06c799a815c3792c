// From options and text to the gate's c and b.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/convert_gate.h"

#include <algorithm>

#include "darkformer/commands/data_files.h"
#include "darkformer/commands/model_options.h"
#include "darkformer/evaluation/collect_near_mass.h"
#include "darkformer/model/decoder.h"

namespace darkformer {

NearMasses near_masses(const ConvertOptions& o,
                       const AttentionSpec& spec,
                       Decoder& model,
                       const Context& context) {
  constexpr std::int64_t kEnough = 8192;  // tokens: a share of attention, not a covariance
  if (!spec.gate || o.gate_bias || o.data.empty()) {
    return {};
  }
  const Tokenizer tokenizer = load_tokenizer(o.model, model.config());
  const EvaluationWindows windows(
      open_data(o.data, o.cache.value_or(std::filesystem::path()), tokenizer, context), o.context);
  const auto found = collect_near_mass(
      model, spec, windows, std::min(o.tokens, kEnough),
      [&](std::int64_t) { context.stop_if_interrupted("stopped; nothing was written"); });
  NearMasses masses;
  for (const auto& layer : found) {
    masses.push_back(layer->mean());
  }
  return masses;
}

void start_gate_of(const ConvertOptions& o,
                   std::int64_t layer,
                   const std::vector<double>& near_mass,
                   Decoder& model) {
  const bool knows_text = !o.data.empty() || o.analysis;
  const double scale = knows_text ? kCalibratedGateScale : kGateScale;
  start_gate(*model.block(layer)->attention()->mixer(), {o.gate_scale.value_or(scale), o.gate_bias},
             near_mass);
}

}  // namespace darkformer
