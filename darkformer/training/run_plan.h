// What a training run will need before it starts: memory, arithmetic, traffic, time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "darkformer/model/model_config.h"
#include "darkformer/training/optimizer.h"
#include "darkformer/training/trained_parameters.h"

namespace darkformer {

struct PlannedRun {
  ModelConfig config;
  TrainScope scope = TrainScope::kAll;
  bool from_folder = true;  // weights are read from a model folder, not drawn
  OptimizerKind optimizer = OptimizerKind::kAdamw;
  bool recompute = false;
  std::int64_t batch = 1;      // windows of a step, of all ranks together
  std::int64_t pass_rows = 0;  // windows of a pass; 0: all of a rank
  std::int64_t context = 1024;
  std::int64_t ranks = 1;
  std::int64_t threads = 1;                 // of a rank
  bool measures_held_out = false;           // forward passes over held-out windows between steps
  std::optional<ModelConfig> teacher = {};  // read besides the model
  bool distills_logits = false;             // from the teacher's
};

// Bytes that one rank has at its highest. The parts are those of that moment: early in the backward
// pass, when all values of the forward pass are there, or late in it, when all gradients are.
struct MemoryPlan {
  std::int64_t mapped = 0;   // weights in the files' own pages; ranks of a machine share them
  std::int64_t weights = 0;  // trained ones, float32
  std::int64_t moments = 0;  // the optimiser's
  std::int64_t gradients = 0;
  std::int64_t activations = 0;  // kept for the backward pass
  std::int64_t scratch = 0;      // of the loss, or of one layer's backward pass
  std::int64_t program = 0;      // code, tables, the allocator's rest

  std::int64_t own() const {
    return weights + moments + gradients + activations + scratch + program;
  }
  std::int64_t peak() const { return mapped + own(); }
  // Of so many ranks on one machine.
  std::int64_t machine(std::int64_t ranks) const { return mapped + ranks * own(); }
};

// Error: a batch that cannot be shared among the ranks. Tests hold the peak to 20 % of what runs
// need.
MemoryPlan plan_memory(const PlannedRun& run);

struct MachineSpeed {
  double flops = 1e11;        // of products, a second, of all threads of a rank
  double bandwidth = 1.25e9;  // bytes a second from one rank to the next, both ways at once
};

// Of one step and one rank.
struct StepPlan {
  std::int64_t tokens = 0;  // of all ranks
  double forward_flops = 0;
  double backward_flops = 0;  // layers computed again included
  double sent_bytes = 0;      // and as many received: 2 (n - 1) / n of the gradients, in a ring
  double compute_seconds = 0;
  double traffic_seconds = 0;  // hidden behind the backward pass as far as it goes
  double seconds = 0;
};

// The bytes and operations are counted; the seconds are a rough estimate, by usual shares of the
// speeds.
StepPlan plan_step(const PlannedRun& run, const MachineSpeed& speed);

// Numbers that are trained.
std::int64_t trained_count(const ModelConfig& config, TrainScope scope);

}  // namespace darkformer
