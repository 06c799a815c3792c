// A whole run in its folder: steps, held-out loss, log, checkpoints, an end that can be resumed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "darkformer/evaluation/measures.h"
#include "darkformer/text/corpus_split.h"
#include "darkformer/training/run_checkpoints.h"
#include "darkformer/training/trainer.h"

namespace darkformer {

struct RunOptions {
  std::filesystem::path folder;
  std::int64_t steps = 1;
  std::int64_t checkpoint_every = 100;
  std::int64_t keep = 2;               // newest checkpoints kept, besides the best
  std::int64_t evaluate_every = 0;     // steps; 0: only with checkpoints
  WindowSet held_out;                  // may be empty: then nothing is measured
  std::int64_t held_out_windows = 64;  // the first ones are measured
  bool skip_nonfinite = false;
  bool tensorboard = false;
  bool final_bfloat16 = false;       // final/ in bfloat16 instead of float32
  std::filesystem::path companions;  // folder with the tokenizer's files
  std::string resume_command;        // what the user types to go on
};

struct RunResult {
  TrainingState state;
  StepReport last;
  std::filesystem::path final_folder;
  std::optional<Checkpoint> best;  // by held-out loss
  double seconds = 0;              // of this process
};

// Trains to the last step, from `start` if there is one (its weights are the trainer's model
// already). Writes log.jsonl, checkpoints/step-N and at the end final/ into the folder. Held-out
// loss is measured at checkpoints and every evaluate_every steps.
// Of several ranks the first one writes; the others return without a folder, also when a signal
// stopped the run.
//   Interrupted: Ctrl-C or SIGTERM came; a checkpoint of the last step was written.
//   UsageError: it has gone further than the last step already.
//   Error: a loss or gradient that is not finite (unless it is to be skipped), a disk that is full.
// The messages name the last good checkpoint and how to go on.
RunResult run_training(Trainer& trainer,
                       const RunOptions& options,
                       const std::optional<Checkpoint>& start);

// The first `windows` held-out windows; nothing without any.
std::optional<Measures> measure_held_out(const std::shared_ptr<Decoder>& model,
                                         const WindowSet& held_out,
                                         std::int64_t windows);

}  // namespace darkformer
