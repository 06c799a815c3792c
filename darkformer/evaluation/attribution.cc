// The parts of a model, and their results as JSON.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/attribution.h"

namespace darkformer {
namespace {

class PartMixer : public WrappedMixer {
 public:
  PartMixer(std::shared_ptr<Mixer> whole, AttentionPart part)
      : WrappedMixer(std::move(whole)), part_(part) {}

  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) override {
    return inner()->forward_part(part_, q, k, v);
  }

 private:
  AttentionPart part_;
};

}  // namespace

std::string attention_part_name(AttentionPart part) {
  switch (part) {
    case AttentionPart::kWindow:
      return "window only";
    case AttentionPart::kLinear:
      return "linear only";
    case AttentionPart::kConstantFar:
      return "constant far field";
    default:
      return "full";
  }
}

std::vector<AttentionPart> attention_parts(const GemmaConfig& config) {
  bool features = false, near = false;
  for (const AttentionSpec& spec : config.attention) {
    features = features || has_features(spec.kind);
    near = near || spec.window > 0 || spec.sinks > 0;
  }
  if (!features) {
    return {};
  }
  if (!near) {
    return {AttentionPart::kAll, AttentionPart::kConstantFar};
  }
  return {AttentionPart::kAll, AttentionPart::kWindow, AttentionPart::kLinear,
          AttentionPart::kConstantFar};
}

PartOverlay::PartOverlay(Gemma& model, AttentionPart part)
    : MixerOverlay(model, [part](std::int64_t, std::shared_ptr<Mixer> inner) {
        return std::make_shared<PartMixer>(std::move(inner), part);
      }) {}

OrderedJson attribution_json(const std::vector<PartResult>& results) {
  OrderedJson list = OrderedJson::array();
  for (const PartResult& result : results) {
    OrderedJson entry;
    entry["component"] = result.name;
    add_means(result.text, false, entry);
    entry["probe"] = probe_json(result.probe);
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace darkformer
