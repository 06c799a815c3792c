// The parts of a model, and their results as JSON.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/attribution.h"

#include "darkformer/base/error.h"
#include "darkformer/model/decoder.h"

namespace darkformer {
namespace {

// A mixer that leaves everything to another, but mixes by a part of it.
class PartMixer : public Mixer {
 public:
  PartMixer(std::shared_ptr<Mixer> whole, AttentionPart part)
      : whole_(std::move(whole)), part_(part) {}

  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) override {
    return whole_->forward_part(part_, q, k, v);
  }
  at::Tensor extend(const at::Tensor&, const at::Tensor&, const at::Tensor&, MixerState&) override {
    fail("a part of an attention does not decode");
  }
  at::Tensor map_queries(const at::Tensor& q) override { return whole_->map_queries(q); }
  at::Tensor map_keys(const at::Tensor& k) override { return whole_->map_keys(k); }
  std::int64_t state_bytes(std::int64_t tokens) const override {
    return whole_->state_bytes(tokens);
  }

 private:
  std::shared_ptr<Mixer> whole_;
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

std::vector<AttentionPart> attention_parts(const ModelConfig& config) {
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

PartOverlay::PartOverlay(Decoder& model, AttentionPart part) : model_(model) {
  for (std::int64_t i = 0; i < model.layers(); ++i) {
    mixers_.push_back(model.block(i)->attention()->mixer());
    model.block(i)->attention()->set_mixer(std::make_shared<PartMixer>(mixers_.back(), part));
  }
}

PartOverlay::~PartOverlay() {
  for (std::int64_t i = 0; i < model_.layers(); ++i) {
    model_.block(i)->attention()->set_mixer(mixers_[static_cast<std::size_t>(i)]);
  }
}

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
