// log.jsonl of a run: a line for each step, and TensorBoard's copy of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "darkformer/base/jsonl.h"
#include "darkformer/training/event_file.h"
#include "darkformer/training/trainer.h"

namespace darkformer {

// What is known of a step besides its report.
struct StepFacts {
  std::int64_t tokens = 0;  // so far
  double tokens_per_second = 0;
  std::int64_t spikes = 0;   // so far
  std::int64_t skipped = 0;  // so far
  std::optional<double> held_out_loss = {};
  std::optional<double> held_out_accuracy = {};
  std::vector<double> covariance_condition = {};  // empty: not measured at this step
};

OrderedJson step_json(const StepReport& report, const StepFacts& facts);

// Lines of the steps up to `step` stay, the rest of the file goes: a resumed run writes it again.
void cut_log(const std::filesystem::path& file, std::int64_t step);

// Goes on behind `step`, which is 0 for a fresh run. One thread.
class RunLog {
 public:
  RunLog(const std::filesystem::path& run, std::int64_t step, bool tensorboard);

  void write(const StepReport& report, const StepFacts& facts);

 private:
  std::unique_ptr<JsonlWriter> lines_;
  std::unique_ptr<EventFile> events_;
};

}  // namespace darkformer
