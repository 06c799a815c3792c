// Where the gates of a conversion start.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "darkformer/commands/convert_options.h"

#include "darkformer/model/attention_spec.h"

namespace darkformer {

class Decoder;

// The near mass of each layer's heads; none where no gate starts from it.
using NearMasses = std::vector<std::vector<double>>;

// Of every layer of the model as it still is, by a pass over --data; empty without it.
NearMasses near_masses(const ConvertOptions& options,
                       const AttentionSpec& spec,
                       Decoder& model,
                       const Context& context);

// Starts the gate of a converted layer, if it has one.
void start_gate_of(const ConvertOptions& options,
                   std::int64_t layer,
                   const std::vector<double>& near_mass,
                   Decoder& model);

}  // namespace darkformer
