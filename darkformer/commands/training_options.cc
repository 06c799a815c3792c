// From options to a run, and its result on standard output.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/training_options.h"

#include <charconv>
#include <iomanip>
#include <ostream>

#include "darkformer/base/error.h"
#include "darkformer/base/log.h"
#include "darkformer/commands/data_files.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;

constexpr double kHeldOut = 0.01;
constexpr std::int64_t kShortText = 200;  // windows; of fewer nothing is held out unasked

std::int64_t redraw_steps(const std::string& text) {
  if (text == "never" || text == "step") {
    return text == "step" ? 1 : 0;
  }
  std::int64_t steps = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), steps);
  if (error != std::errc() || end != text.data() + text.size() || steps < 1) {
    throw UsageError(concat("--redraw: wanted never, step or a number of steps, got '", text, "'"));
  }
  return steps;
}

double held_out_share(const TrainingOptions& options, const PackedTokens& tokens) {
  if (options.held_out) {
    return *options.held_out;
  }
  if (tokens.size() / options.context < kShortText) {
    log_info("the text has fewer than ", kShortText,
             " windows: nothing is held out (--held-out says how much should be)");
    return 0;
  }
  return kHeldOut;
}

TrainerOptions trainer_options(const TrainingOptions& options, const PreparedRun& run) {
  TrainerOptions trainer;
  trainer.schedule = {
      options.schedule == "cosine" ? ScheduleKind::kCosine : ScheduleKind::kConstant, options.lr,
      options.warmup, options.steps, options.final_lr};
  trainer.optimizer = {options.optimizer == "sgd" ? OptimizerKind::kSgd : OptimizerKind::kAdamw,
                       options.beta1, options.beta2, options.epsilon, options.weight_decay};
  trainer.factor_rate_scale = options.factor_lr_scale;
  trainer.clip = options.clip;
  trainer.pass_rows = options.micro_batch;
  trainer.redraw_every = redraw_steps(options.redraw);
  trainer.distillation = run.distillation;
  return trainer;
}

RunOptions run_options(const TrainingOptions& options,
                       const PreparedRun& run,
                       const CorpusSplit& split,
                       const Context& context) {
  RunOptions result;
  result.folder = options.out;
  result.steps = options.steps;
  result.checkpoint_every = options.checkpoint_every;
  result.keep = options.keep;
  result.evaluate_every = options.eval_every;
  result.held_out = split.held_out;
  result.held_out_windows = options.eval_windows;
  result.skip_nonfinite = options.skip_nonfinite;
  result.tensorboard = options.tensorboard;
  result.final_bfloat16 = options.final_type == "bfloat16";
  result.companions = run.companions;
  result.resume_command = concat("darkformer ", context.command, " --config ",
                                 (options.out / "run.toml").string(), " --resume");
  return result;
}

OrderedJson result_json(const RunResult& result) {
  OrderedJson object;
  object["steps"] = result.state.step;
  object["tokens"] = result.state.tokens;
  object["loss"] = result.last.loss;
  object["accuracy"] = result.last.accuracy;
  object["spikes"] = result.state.spikes;
  object["skipped"] = result.state.skipped;
  object["seconds"] = result.seconds;
  object["final"] = result.final_folder.string();
  if (result.best) {
    object["best"] = result.best->folder.string();
    object["best_held_out_loss"] = *result.best->state.held_out_loss;
  }
  return object;
}

void print_result(const RunResult& result, std::ostream& out) {
  out << std::setprecision(4) << result.state.step << " steps, " << result.state.tokens
      << " tokens";
  if (result.last.step > 0) {
    out << "; loss " << result.last.loss << ", accuracy " << result.last.accuracy;
  }
  out << '\n';
  if (result.state.spikes > 0 || result.state.skipped > 0) {
    out << result.state.spikes << " loss spikes, " << result.state.skipped << " steps skipped\n";
  }
  if (result.best) {
    out << "best: " << result.best->folder.string() << " (held-out loss "
        << *result.best->state.held_out_loss << ")\n";
  }
  out << "final: " << result.final_folder.string() << '\n';
}

}  // namespace

void check_training_options(const TrainingOptions& options) {
  redraw_steps(options.redraw);
  if (options.warmup > options.steps) {
    throw UsageError(
        concat("--warmup: ", options.warmup, " steps of warm-up in a run of ", options.steps));
  }
  if (!options.resume && fs::exists(options.out / "run.toml")) {
    throw UsageError(concat(options.out.string(),
                            ": holds a run already; --resume goes on with it, another --out "
                            "starts a new one"));
  }
}

void train(const TrainingOptions& options, const PreparedRun& run, Context& context) {
  const std::optional<Checkpoint> start =
      options.resume ? RunCheckpoints(options.out, options.keep).latest() : std::nullopt;
  const std::shared_ptr<Gemma> model = run.load(start ? &*start : nullptr);
  const auto tokens = std::make_shared<PackedTokens>(
      open_data(options.data, options.cache.value_or(fs::path()), run.tokenizer, context));
  const CorpusSplit split = split_corpus(
      tokens, {.context = options.context, .held_out = held_out_share(options, *tokens)});
  const auto batches = std::make_shared<BatchStream>(
      split, BatchOptions{.batch = options.batch,
                          .seed = static_cast<std::uint64_t>(context.common.seed)});
  fs::create_directories(options.out);
  if (!start || start->state.step < options.steps) {  // else nothing will be done by these options
    context.write_run_toml(options.out / "run.toml");
  }
  Trainer trainer(model, batches, trainer_options(options, run), run.teacher);
  const RunResult result = run_training(trainer, run_options(options, run, split, context), start);
  if (context.common.json) {
    context.print_json(result_json(result));
  } else {
    print_result(result, context.out);
  }
}

}  // namespace darkformer
