// What a run must remember between two steps, besides weights, draws and optimiser.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "darkformer/base/json.h"
#include "darkformer/text/batch_stream.h"

namespace darkformer {

// All random numbers are functions of seeds and counters: of the random state there is only the
// seed and the index of the draws, which the model's config.json keeps.
struct TrainingState {
  std::int64_t step = 0;             // done
  std::int64_t tokens = 0;           // targets trained on
  std::int64_t optimizer_steps = 0;  // step less the skipped ones
  std::int64_t spikes = 0;           // losses that jumped (SpikeDetector)
  std::int64_t skipped = 0;          // steps without an update: loss or gradient not finite
  DataPosition position = {};        // of the next batch
  std::deque<double> recent_losses = {};
  std::optional<double> held_out_loss = {};  // where it was measured at this step
  std::int64_t threads = 0;                  // another number may round differently
  std::int64_t ranks = 1;                    // and so here

  bool operator==(const TrainingState&) const = default;
};

OrderedJson training_state_json(const TrainingState& state);
// Error naming `source`: a field is missing or of another type, or a newer format.
TrainingState parse_training_state(const Json& json, const std::string& source);

}  // namespace darkformer
