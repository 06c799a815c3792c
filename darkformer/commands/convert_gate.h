// Where the gates of a conversion start.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "darkformer/commands/convert_options.h"
#include "darkformer/model/gemma.h"
#include "darkformer/model/near_mass.h"

namespace darkformer {

using NearMasses = std::vector<std::shared_ptr<NearMass>>;

// The near mass of every layer of the model as it still is, by a pass over --data; empty where no
// gate starts from it.
NearMasses near_masses(const ConvertOptions& options,
                       const AttentionSpec& spec,
                       Gemma& model,
                       const Context& context);

// Starts the gate of a converted layer, if it has one.
void start_gate_of(const ConvertOptions& options,
                   std::int64_t layer,
                   const NearMasses& masses,
                   Gemma& model);

}  // namespace darkformer
