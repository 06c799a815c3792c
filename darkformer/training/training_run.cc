// The loop around the trainer.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/training/training_run.h"

#include <algorithm>
#include <chrono>
#include <iomanip>

#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/base/interrupt.h"
#include "darkformer/base/log.h"
#include "darkformer/base/progress.h"
#include "darkformer/base/threads.h"
#include "darkformer/checkpoint/model_folder.h"
#include "darkformer/evaluation/evaluator.h"
#include "darkformer/model/decoder.h"
#include "darkformer/training/covariance_condition.h"
#include "darkformer/training/run_log.h"
#include "darkformer/training/stored_copy.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kConditionEvery = 10;  // singular values cost more than a log line

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Run {
 public:
  Run(Trainer& trainer, const RunOptions& options, const std::optional<Checkpoint>& start)
      : trainer_(trainer), options_(options), checkpoints_(options.folder, options.keep) {
    if (start) {
      resume(*start);
    }
    if (trainer_.is_first()) {
      log_ = std::make_unique<RunLog>(options.folder, trainer_.state().step, options.tensorboard);
    }
  }

  RunResult to_the_end() {
    const Clock::time_point began = Clock::now();
    Progress::Options shown;
    shown.start = trainer_.state().step;
    Progress progress("train", options_.steps, shown);
    RunResult result;
    while (trainer_.state().step < options_.steps) {
      result.last = one_step();
      progress.advance();
      progress.note(concat("loss ", std::setprecision(4), result.last.loss));
      if (is_stopped(result.last)) {
        stop();
        break;
      }
    }
    result.state = trainer_.state();
    if (trainer_.is_first()) {
      result.final_folder = write_final();
      result.best = checkpoints_.best();
    }
    result.seconds = seconds_since(began);
    return result;
  }

 private:
  void resume(const Checkpoint& start) {
    if (start.state.step > options_.steps) {
      throw UsageError(concat(options_.folder.string(), ": the run has done ",
                              count_text(start.state.step, "step"), " already, more than the ",
                              options_.steps, " that are wanted (--steps)"));
    }
    trainer_.restore(start.state);
    trainer_.optimizer().load(start.folder / "optimizer.safetensors", start.state.optimizer_steps);
    last_good_ = start.folder;
    saved_step_ = start.state.step;
    if (start.state.threads != threads()) {
      log_warning("the number of threads was ", start.state.threads, " before and is ", threads(),
                  " now: results may differ in the last bits");
    }
    if (start.state.ranks != trainer_.ranks()) {
      log_warning("the number of ranks was ", start.state.ranks, " before and is ",
                  trainer_.ranks(), " now: results may differ in the last bits");
    }
    log_info("goes on after step ", start.state.step, " from ", start.folder.string());
  }

  StepReport one_step() {
    const Clock::time_point began = Clock::now();
    StepReport report = trainer_.step();
    if (!trainer_.is_first()) {
      check_finite(report);
      return report;
    }
    const double seconds = seconds_since(began);
    const TrainingState state = trainer_.state();
    StepFacts facts{.tokens = state.tokens,
                    .tokens_per_second = static_cast<double>(report.tokens) / seconds,
                    .spikes = state.spikes,
                    .skipped = state.skipped};
    if (report.step % kConditionEvery == 0 || is_last(report.step)) {
      facts.covariance_condition = covariance_conditions(*trainer_.model());
    }
    if (is_measured(report.step)) {
      measure(facts);
    }
    log_->write(report, facts);
    check_finite(report);
    if (is_saved(report.step)) {
      save(facts.held_out_loss);
    }
    return report;
  }

  bool is_last(std::int64_t step) const { return step == options_.steps; }
  bool is_saved(std::int64_t step) const {
    return is_last(step) || step % options_.checkpoint_every == 0;
  }
  bool is_measured(std::int64_t step) const {
    return is_saved(step) || (options_.evaluate_every > 0 && step % options_.evaluate_every == 0);
  }

  void measure(StepFacts& facts) const {
    const std::optional<Measures> measures =
        measure_held_out(trainer_.model(), options_.held_out, options_.held_out_windows);
    if (measures) {
      facts.held_out_loss = measures->loss();
      facts.held_out_accuracy = measures->accuracy();
    }
  }

  // "the last good checkpoint is RUN/checkpoints/step-100; go on from there with: ..."
  std::string way_on(const std::string& advice = "") const {
    if (last_good_.empty()) {
      return concat("there is no checkpoint yet", advice.empty() ? "" : "; try " + advice);
    }
    return concat("the last good checkpoint is ", last_good_.string(),
                  "; go on from there with: ", options_.resume_command,
                  advice.empty() ? "" : " (with " + advice + ")");
  }

  void check_finite(const StepReport& report) const {
    if (report.finite) {
      return;
    }
    const std::string what = concat("loss ", report.loss, ", gradient norm ", report.gradient_norm,
                                    "; ", report.nonfinite.cause());
    // With a weight that is not finite all steps to come would be skipped.
    const bool is_lasting = !report.nonfinite.weight.empty();
    require(options_.skip_nonfinite && !is_lasting, "step ", report.step, ": ", what, "; ",
            way_on(is_lasting ? "" : "a lower --lr or --clip, or --skip-nonfinite"));
    log_warning("step ", report.step, " skipped: ", what);
  }

  void save(const std::optional<double>& held_out_loss) {
    TrainingState state = trainer_.state();
    if (state.step == saved_step_) {
      return;
    }
    state.held_out_loss = held_out_loss;
    try {
      last_good_ =
          checkpoints_.save(state, *trainer_.model(), trainer_.optimizer(), options_.companions);
    } catch (const std::exception& error) {
      fail("the checkpoint of step ", state.step, " could not be written: ", error.what(), "; ",
           way_on());
    }
    saved_step_ = state.step;
  }

  // Several ranks stop after the same step: the one whose report says so.
  bool is_stopped(const StepReport& report) const {
    return trainer_.ranks() == 1 ? interrupted() : report.stop_asked;
  }

  // The first rank saves and tells. The others have done their part: launchers would take a failure
  // of theirs for a reason to end the first one while it saves.
  void stop() {
    if (!trainer_.is_first()) {
      log_warning("stopped after step ", trainer_.state().step, " of ", options_.steps,
                  "; rank 0 saves and says how to go on");
      return;
    }
    save(std::nullopt);
    throw Interrupted(concat("stopped after step ", trainer_.state().step, " of ", options_.steps,
                             "; saved as ", last_good_.string(),
                             "; go on with: ", options_.resume_command));
  }

  fs::path write_final() const {
    fs::path folder = options_.folder / "final";
    const SaveOptions save{.companions = options_.companions};
    try {
      if (options_.final_bfloat16) {
        save_model(folder, *bfloat16_copy(*trainer_.model()), save);
      } else {
        save_model(folder, *trainer_.model(), save);
      }
    } catch (const std::exception& error) {
      fail(folder.string(), " could not be written: ", error.what(), "; ", way_on());
    }
    return folder;
  }

  Trainer& trainer_;
  const RunOptions& options_;
  RunCheckpoints checkpoints_;
  std::unique_ptr<RunLog> log_;
  fs::path last_good_;
  std::int64_t saved_step_ = -1;
};

}  // namespace

RunResult run_training(Trainer& trainer,
                       const RunOptions& options,
                       const std::optional<Checkpoint>& start) {
  return Run(trainer, options, start).to_the_end();
}

std::optional<Measures> measure_held_out(const std::shared_ptr<Decoder>& model,
                                         const WindowSet& held_out,
                                         std::int64_t windows) {
  const std::int64_t count = std::min(held_out.size(), windows);
  if (count == 0) {
    return std::nullopt;
  }
  Evaluator evaluator(model);
  const std::int64_t rows = evaluation_rows(held_out.context());
  for (std::int64_t first = 0; first < count; first += rows) {
    evaluator.add(held_out.read_batch(first, std::min(rows, count - first)));
  }
  return evaluator.result().all;
}

}  // namespace darkformer
