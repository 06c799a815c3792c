// The checkpoints of a run: whole folders, checksummed, the last ones and the best kept.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "darkformer/training/optimizer.h"
#include "darkformer/training/training_state.h"

namespace darkformer {

class Decoder;

struct Checkpoint {
  std::filesystem::path folder;
  TrainingState state;
};

// RUN/checkpoints/step-N/ is a model folder with optimizer.safetensors and training_state.json,
// which holds the checksums of the others. It appears as a whole or not at all. One process, one
// thread.
class RunCheckpoints {
 public:
  // `keep` of the newest stay, and the one with the lowest held-out loss.
  RunCheckpoints(const std::filesystem::path& run, std::int64_t keep)
      : folder_(run / "checkpoints"), keep_(keep) {}

  // Writes step-N, then removes what need not stay. Error (disk full, ...): what was there before
  // is as it was.
  std::filesystem::path save(const TrainingState& state,
                             const Decoder& model,
                             const Optimizer& optimizer,
                             const std::filesystem::path& companions) const;

  // The newest one whose checksums are right; broken ones are reported in the log. Clears away what
  // killed writers left.
  std::optional<Checkpoint> latest() const;
  bool empty() const;  // nothing is there, not even a broken one
  // The one with the lowest held-out loss; the earliest of equals.
  std::optional<Checkpoint> best() const;
  // By step; those whose state can be read.
  std::vector<Checkpoint> all() const;

 private:
  void prune() const;

  std::filesystem::path folder_;
  std::int64_t keep_;
};

}  // namespace darkformer
