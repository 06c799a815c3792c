// training_state.json of a checkpoint; what is accepted is written and read back the same.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/training/training_state.h"

#include "fuzz/input.h"

using namespace darkformer;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::expect_error_or_success([&] {
    const TrainingState state = parse_training_state(
        parse_json(fuzz::text_of(data, size), "training_state.json"), "training_state.json");
    const std::string written = training_state_json(state).dump();
    const TrainingState again = parse_training_state(parse_json(written, "written"), "written");
    fuzz::require_true(again == state || written.find("null") != std::string::npos,
                       "a state changes when written");
  });
  return 0;
}
