// Passes over the rows of a batch, then the update.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/training/trainer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "darkformer/base/error.h"
#include "darkformer/base/interrupt.h"
#include "darkformer/base/threads.h"
#include "darkformer/evaluation/batch_tensors.h"
#include "darkformer/model/decoder.h"

namespace darkformer {
namespace {

// Rows [first, first + count) of a batch.
TokenBatch rows_of(const TokenBatch& batch, std::int64_t first, std::int64_t count) {
  TokenBatch rows(count, batch.context);
  const std::int64_t width = batch.context + 1;
  std::copy_n(batch.ids.begin() + first * width, count * width, rows.ids.begin());
  std::copy_n(batch.counted.begin() + first * batch.context, count * batch.context,
              rows.counted.begin());
  return rows;
}

}  // namespace

Trainer::Trainer(std::shared_ptr<Decoder> model,
                 std::shared_ptr<BatchStream> batches,
                 const TrainerOptions& options,
                 std::shared_ptr<Decoder> teacher,
                 std::shared_ptr<Ranks> ranks)
    : model_(std::move(model)),
      batches_(std::move(batches)),
      options_(options),
      teacher_(std::move(teacher)),
      ranks_(std::move(ranks)),
      optimizer_(trained_parameters(*model_, options.factor_rate_scale), options.optimizer) {
  model_->set_recompute(options.recompute);
  if (ranks_) {
    buckets_ = std::make_unique<GradientBuckets>(optimizer_.parameters(), ranks_);
  }
}

void Trainer::redraw_when_due() {
  if (options_.redraw_every > 0 && counts_.step > 0 && counts_.step % options_.redraw_every == 0) {
    model_->redraw(model_->config().draw_index + 1);
  }
}

std::int64_t Trainer::over_ranks(std::int64_t count) const {
  if (!ranks_) {
    return count;
  }
  std::vector<double> values = {static_cast<double>(count)};
  ranks_->sum(values);
  return static_cast<std::int64_t>(values[0]);
}

void Trainer::over_ranks(PassSums& sums, bool& stop_asked) const {
  stop_asked = interrupted();
  if (!ranks_) {
    return;
  }
  std::vector<double> values = {sums.loss, sums.distillation_loss, sums.attention_distance,
                                static_cast<double>(sums.correct), stop_asked ? 1.0 : 0.0};
  ranks_->sum(values);
  sums = {values[0], values[1], values[2], static_cast<std::int64_t>(values[3])};
  stop_asked = values[4] > 0;
}

StepReport Trainer::step() {
  redraw_when_due();
  const TokenBatch batch = batches_->next();
  StepReport report;
  report.step = ++counts_.step;
  report.tokens =
      over_ranks(std::count(batch.counted.begin(), batch.counted.end(), std::uint8_t{1}));
  report.rate = options_.schedule.rate(report.step);
  report.factor_rate = report.rate * options_.factor_rate_scale;
  clear_gradients(optimizer_.parameters());
  PassSums sums = passes(batch, std::max<std::int64_t>(1, report.tokens));
  over_ranks(sums, report.stop_asked);
  const auto tokens = static_cast<double>(std::max<std::int64_t>(1, report.tokens));
  report.loss = sums.loss / tokens;
  report.accuracy = static_cast<double>(sums.correct) / tokens;
  report.distillation_loss = sums.distillation_loss;
  report.attention_distance = sums.attention_distance;
  report.gradient_norm = gradient_norm(optimizer_.parameters());
  report.finite = std::isfinite(report.loss) && std::isfinite(report.gradient_norm);
  if (report.finite) {
    optimizer_.step(report.rate, clip_scale(report.gradient_norm, options_.clip));
    report.spike = spikes_.add(report.loss);
    counts_.spikes += report.spike ? 1 : 0;
  } else {
    report.nonfinite = find_nonfinite(*model_);
    ++counts_.skipped;
  }
  clear_gradients(optimizer_.parameters());
  counts_.tokens += report.tokens;
  return report;
}

Trainer::PassSums Trainer::passes(const TokenBatch& batch, std::int64_t counted) {
  const std::int64_t block = options_.pass_rows > 0 ? options_.pass_rows : batch.rows;
  PassSums sums;
  if (buckets_) {
    buckets_->begin();
  }
  for (std::int64_t first = 0; first < batch.rows; first += block) {
    const std::int64_t rows = std::min(block, batch.rows - first);
    pass(rows_of(batch, first, rows), counted, first + rows == batch.rows, sums);
  }
  if (buckets_) {
    buckets_->finish();
  }
  return sums;
}

// The objective of a pass is its share of  sum of losses / counted , so that passes add up.
void Trainer::pass(const TokenBatch& rows, std::int64_t counted, bool last, PassSums& sums) {
  const BatchTensors tokens = tensors_of(rows);
  const double share = 1.0 / static_cast<double>(counted);
  const at::Tensor hidden = model_->forward(tokens.inputs);  // (B,T,E)
  const ops::CrossEntropy entropy = model_->loss(hidden, tokens.targets);
  at::Tensor objective = entropy.loss.sum() * share;
  if (teacher_) {
    objective = objective * options_.distillation.loss_weight + taught(tokens, hidden, share, sums);
  }
  if (buckets_ && last) {
    buckets_->send_when_ready();  // the teacher's own backward passes are done
  }
  objective.backward();
  sums.loss += entropy.loss.detach().to(at::kDouble).sum().item<double>();
  sums.correct += entropy.correct_count();
}

// The teacher's terms; those with a backward pass of their own have made it already.
at::Tensor Trainer::taught(const BatchTensors& tokens,
                           const at::Tensor& hidden,
                           double share,
                           PassSums& sums) const {
  const DistillationOptions& options = options_.distillation;
  if (options.attention_weight > 0) {
    const double part = share * static_cast<double>(tokens.counted);
    sums.attention_distance += part * distill_attention(*model_, *teacher_, tokens.inputs,
                                                        part * options.attention_weight);
  }
  if (options.logits_weight == 0) {
    return at::zeros({});
  }
  const DistillationTerm term = distill(*model_, *teacher_, tokens, hidden, share, options);
  sums.distillation_loss += term.value;
  return term.objective;
}

TrainingState Trainer::state() const {
  TrainingState state = counts_;
  state.optimizer_steps = optimizer_.steps();
  state.position = batches_->position();
  state.recent_losses = spikes_.recent();
  state.threads = threads();
  state.ranks = ranks();
  return state;
}

void Trainer::restore(const TrainingState& state) {
  batches_->restore(state.position);
  spikes_.restore(state.recent_losses);
  counts_ = state;
  counts_.held_out_loss.reset();
}

}  // namespace darkformer
