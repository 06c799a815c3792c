// What eval says of a converted model's components: the table of parts, and the far-field probe.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iosfwd>
#include <memory>
#include <vector>

#include "darkformer/commands/command.h"
#include "darkformer/evaluation/attribution.h"

namespace darkformer {

struct AttributionRun {
  std::vector<AttentionPart> parts = {};     // of the model; none: nothing is measured
  std::vector<std::int64_t> distances = {};  // of the probe; none: no probe
  std::int64_t tokens = 0;                   // of the text, at most
  std::int64_t rows = 1;                     // windows read at once
};

// Every part of the model, and `base` (where it is not null) under that name, on the same tokens
// and probes.
std::vector<PartResult> attribute(const AttributionRun& run,
                                  const std::shared_ptr<Decoder>& model,
                                  const std::shared_ptr<Decoder>& base,
                                  const EvaluationWindows& windows,
                                  Context& context);

void print_attribution(const std::vector<PartResult>& results, std::ostream& out);

}  // namespace darkformer
