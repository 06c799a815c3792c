// What each component of a converted model's attention contributes: the same weights with a part of
// it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "darkformer/evaluation/far_field_probe.h"

#include "darkformer/model/mixer.h"
#include "darkformer/model/model_config.h"

namespace darkformer {

class Decoder;

// "full", "window only", "linear only", "constant far field"
std::string attention_part_name(AttentionPart part);

// The parts worth measuring: all four where a layer has a window (or sinks) beside its features;
// full and constant far field where there are features alone (full is then linear only); none where
// no layer has features. The first is full.
std::vector<AttentionPart> attention_parts(const ModelConfig& config);

// While it lives, every converted layer works by this part alone; exact layers stay as they are.
class PartOverlay {
 public:
  PartOverlay(Decoder& model, AttentionPart part);
  ~PartOverlay();
  PartOverlay(const PartOverlay&) = delete;
  PartOverlay& operator=(const PartOverlay&) = delete;

 private:
  Decoder& model_;
  std::vector<std::shared_ptr<Mixer>> mixers_;
};

struct PartResult {
  std::string name;
  Measures text;
  std::vector<ProbeScore> probe;
};

// [{"component", "loss", "perplexity", "accuracy", "tokens", "probe": [...]}]
OrderedJson attribution_json(const std::vector<PartResult>& results);

}  // namespace darkformer
