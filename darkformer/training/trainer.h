// One training step: batch -> loss -> gradients -> update, with everything a run counts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "darkformer/model/nonfinite.h"
#include "darkformer/training/data_parallel.h"
#include "darkformer/training/distillation.h"
#include "darkformer/training/gradient_buckets.h"
#include "darkformer/training/loss_spikes.h"
#include "darkformer/training/optimizer.h"
#include "darkformer/training/schedule.h"
#include "darkformer/training/training_state.h"

namespace darkformer {

struct TrainerOptions {
  Schedule schedule;
  OptimizerOptions optimizer;
  double factor_rate_scale = 1;
  double clip = 1;                // largest norm of the gradient; 0: no limit
  std::int64_t pass_rows = 0;     // windows of one forward and backward pass; 0: the whole batch
  std::int64_t redraw_every = 0;  // steps between new draws; 0: never
  bool recompute = false;         // layers are computed again in the backward pass, not kept
  DistillationOptions distillation;
};

struct StepReport {
  std::int64_t step = 0;    // from 1
  std::int64_t tokens = 0;  // targets of this step
  double loss = 0;          // mean over them, before the update
  double accuracy = 0;
  double gradient_norm = 0;  // before clipping
  double rate = 0;
  double factor_rate = 0;
  double distillation_loss = 0;   // KL(teacher || model), a mean as the loss
  double attention_distance = 0;  // distill_attention
  bool finite = true;             // otherwise the weights were left as they were
  Nonfinite nonfinite = {};       // then: what is to blame
  bool spike = false;
  bool stop_asked = false;  // Ctrl-C or SIGTERM came to some rank: all stop after this step
};

// The gradient is that of the mean loss over all counted targets of the batch, however many passes
// it is cut into and however many ranks share it. Same machine, weights, position, thread and rank
// count: the same bits. One thread.
class Trainer {
 public:
  // Trains the parameters that ask for gradients. `teacher`: null without distillation. `ranks`:
  // null for one process; otherwise `batches` are this rank's rows, and reports are of all rows.
  Trainer(std::shared_ptr<Decoder> model,
          std::shared_ptr<BatchStream> batches,
          const TrainerOptions& options,
          std::shared_ptr<Decoder> teacher = nullptr,
          std::shared_ptr<Ranks> ranks = nullptr);

  StepReport step();

  // What a checkpoint keeps besides the model and the optimiser, and back.
  TrainingState state() const;
  void restore(const TrainingState& state);

  const std::shared_ptr<Decoder>& model() const { return model_; }
  Optimizer& optimizer() { return optimizer_; }
  int ranks() const { return ranks_ ? ranks_->size() : 1; }
  // Of several ranks the first writes what a run leaves behind.
  bool is_first() const { return !ranks_ || ranks_->is_first(); }

 private:
  struct PassSums {
    double loss = 0;
    double distillation_loss = 0;
    double attention_distance = 0;
    std::int64_t correct = 0;
  };

  void redraw_when_due();
  std::int64_t over_ranks(std::int64_t count) const;
  void over_ranks(PassSums& sums, bool& stop_asked) const;
  PassSums passes(const TokenBatch& batch, std::int64_t counted);
  void pass(const TokenBatch& rows, std::int64_t counted, bool last, PassSums& sums);
  at::Tensor taught(const BatchTensors& tokens,
                    const at::Tensor& hidden,
                    double share,
                    PassSums& sums) const;

  std::shared_ptr<Decoder> model_;
  std::shared_ptr<BatchStream> batches_;
  TrainerOptions options_;
  std::shared_ptr<Decoder> teacher_;
  std::shared_ptr<Ranks> ranks_;
  Optimizer optimizer_;
  std::unique_ptr<GradientBuckets> buckets_;  // null for one process
  SpikeDetector spikes_;
  TrainingState counts_;
};

}  // namespace darkformer
