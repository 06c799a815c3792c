// From options to a run, and its result on standard output.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/training_options.h"

#include <charconv>
#include <iomanip>
#include <ostream>

#include "darkformer/base/checksum.h"
#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/base/folder_lock.h"
#include "darkformer/base/log.h"
#include "darkformer/base/memory.h"
#include "darkformer/base/system_info.h"
#include "darkformer/base/threads.h"
#include "darkformer/commands/data_files.h"
#include "darkformer/commands/model_options.h"
#include "darkformer/commands/out_place.h"
#include "darkformer/commands/rank_launcher.h"
#include "darkformer/commands/run_toml.h"
#include "darkformer/commands/training_ranks.h"
#include "darkformer/model/decoder.h"

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
  trainer.recompute = options.recompute;
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
  result.resume_command = resume_command(options, context);
  return result;
}

OrderedJson result_json(const RunResult& result, const MemoryPlan& plan) {
  OrderedJson object;
  object["steps"] = result.state.step;
  object["tokens"] = result.state.tokens;
  object["loss"] = result.last.loss;
  object["accuracy"] = result.last.accuracy;
  object["spikes"] = result.state.spikes;
  object["skipped"] = result.state.skipped;
  object["seconds"] = result.seconds;
  object["peak_memory"] = memory_info().peak;
  object["predicted_memory"] = plan.peak();
  object["final"] = result.final_folder.string();
  if (result.best) {
    object["best"] = result.best->folder.string();
    object["best_held_out_loss"] = *result.best->state.held_out_loss;
  }
  return object;
}

void print_result(const RunResult& result, const MemoryPlan& plan, std::ostream& out) {
  out << std::setprecision(4) << count_text(result.state.step, "step") << ", "
      << count_text(result.state.tokens, "token");
  if (result.last.step > 0) {
    out << "; loss " << result.last.loss << ", accuracy " << result.last.accuracy;
  }
  out << '\n';
  if (result.state.spikes > 0 || result.state.skipped > 0) {
    out << count_text(result.state.spikes, "loss spike") << ", "
        << count_text(result.state.skipped, "step") << " skipped\n";
  }
  if (result.best) {
    out << "best: " << result.best->folder.string() << " (held-out loss "
        << *result.best->state.held_out_loss << ")\n";
  }
  out << "peak memory: " << bytes_text(memory_info().peak) << " (predicted "
      << bytes_text(plan.peak()) << ")\n"
      << "final: " << result.final_folder.string() << '\n';
}

// A run that goes on keeps what its checkpoints are made of; other changes are taken and told.
void compare_with_kept(const TrainingOptions& options, const Context& context, bool tells) {
  const fs::path file = options.out / "run.toml";
  const bool has_begun = !RunCheckpoints(options.out, options.keep).empty();
  for (const ChangedOption& option : changed_options(file, context.command, context.fields)) {
    const std::string before = option.before.empty() ? "unset" : option.before;
    switch (option.field->traits.on_resume) {
      case OnResume::kFree:
        break;
      case OnResume::kTold:
        if (tells) {
          log_warning(option.field->flag(), ": ", option.now, " from here on, ", before,
                      " before: the result will be that of neither alone");
        }
        break;
      case OnResume::kFixed:
        throw UsageError(concat(option.field->flag(), ": ", option.now, ", but the run in ",
                                options.out.string(), " was begun with ", before,
                                "; leave it out to go on, or begin another with another --out"));
      case OnResume::kStart:
        if (tells && has_begun) {
          log_warning(option.field->flag(), ": ", option.now, ", but the run in ",
                      options.out.string(), " was begun with ", before,
                      " and goes on from its checkpoint, not from there");
        }
        break;
    }
  }
}

}  // namespace

void check_training_options(const TrainingOptions& options, const Context& context) {
  redraw_steps(options.redraw);
  if (options.warmup > options.steps) {
    throw UsageError(concat("--warmup: ", count_text(options.warmup, "step"),
                            " of warm-up in a run of ", options.steps));
  }
  for (const auto& [flag, value] :
       {std::pair("--beta1", options.beta1), {"--beta2", options.beta2}}) {
    if (value >= 1) {
      throw UsageError(concat(flag, ": ", value, "; wanted less than 1: a memory that forgets"));
    }
  }
  const auto place = rank_place();
  const bool is_first = !place || place->rank == 0;  // it may have begun to write when others look
  if (is_first) {
    check_out_folder(options.out, [&](const fs::path& folder) {
      // pretrain makes the vocabulary before the run begins.
      return fs::exists(folder / "run.toml") ||
             (options.resume && fs::exists(folder / "tokenizer"));
    });
  }
  if (!options.resume && is_first && fs::exists(options.out / "run.toml")) {
    throw UsageError(concat(options.out.string(),
                            ": holds a run already; --resume goes on with it, another --out "
                            "starts a new one"));
  }
  if (options.resume && fs::exists(options.out / "run.toml")) {
    compare_with_kept(options, context, is_first && !is_launched_rank());
  }
}

PlannedRun planned_run(const TrainingOptions& options, PlannedRun trained) {
  const auto place = rank_place();
  trained.optimizer = options.optimizer == "sgd" ? OptimizerKind::kSgd : OptimizerKind::kAdamw;
  trained.recompute = options.recompute;
  trained.batch = options.batch;
  trained.pass_rows = options.micro_batch;
  trained.context = options.context;
  trained.ranks = place ? place->ranks : options.nproc;
  trained.threads = threads();
  trained.measures_held_out = options.held_out.value_or(kHeldOut) > 0;
  return trained;
}

namespace {

// Processes of the run on this machine.
std::int64_t ranks_here(const TrainingOptions& options) {
  const auto place = rank_place();
  return place ? place->local_ranks : options.nproc;
}

// What would make a run fit that does not: that depends on which part is too large.
std::string smaller_run(const PlannedRun& planned,
                        const MemoryPlan& plan,
                        std::int64_t ranks,
                        std::int64_t available) {
  const std::int64_t model = plan.weights + plan.moments + plan.gradients + plan.program;
  if (plan.mapped + ranks * model <= available) {
    return "--recompute, a smaller --micro-batch or --context";
  }
  if (!planned.from_folder) {
    return "a smaller model: --hidden, --intermediate, --layers, --vocabulary";
  }
  return planned.scope == TrainScope::kAll ? "--train attention or --optimizer sgd"
                                           : "a smaller model";
}

}  // namespace

MemoryPlan check_memory(const TrainingOptions& options, const PlannedRun& planned) {
  const std::int64_t ranks = ranks_here(options);
  const MemoryPlan plan = plan_memory(planned);
  const MemoryInfo memory = memory_info();
  require(options.ignore_memory || plan.machine(ranks) <= memory.available,
          "the run would need about ", bytes_text(plan.machine(ranks)), " of memory (",
          bytes_text(plan.mapped), " for weights in files, ",
          bytes_text(ranks * (plan.weights + plan.moments + plan.gradients)), " for trained ones, ",
          bytes_text(ranks * (plan.activations + plan.scratch)), " for values), but ",
          bytes_text(memory.available), " of ", bytes_text(memory.total), " are left; try ",
          smaller_run(planned, plan, ranks, memory.available),
          ", or start anyway with --ignore-memory");
  return plan;
}

namespace {

// The tokens of the texts; the first process of a machine makes them, the others find them.
std::shared_ptr<PackedTokens> open_tokens(const TrainingOptions& options,
                                          const PreparedRun& run,
                                          const Context& context) {
  std::shared_ptr<PackedTokens> tokens;
  const auto open = [&] {
    tokens = std::make_shared<PackedTokens>(
        open_data(options.data, options.cache.value_or(fs::path()), run.tokenizer, context));
  };
  run.ranks ? run.ranks->after_the_first_here(open) : open();
  return tokens;
}

// The checkpoint to go on from. The first rank looks, which also clears away what was left half
// done; the others take the same one.
std::optional<Checkpoint> find_start(const TrainingOptions& options, const PreparedRun& run) {
  if (!options.resume) {
    return std::nullopt;
  }
  const RunCheckpoints checkpoints(options.out, options.keep);
  std::optional<Checkpoint> start;
  if (!run.ranks || run.ranks->is_first()) {
    start = checkpoints.latest();
    require(
        start || checkpoints.empty(), options.out.string(),
        ": every checkpoint is damaged, so the run cannot go on; begin another with another --out");
    if (!start) {
      log_info(options.out.string(), ": nothing to resume, starts at the first step");
    }
  }
  if (!run.ranks) {
    return start;
  }
  constexpr std::int64_t kNone = -1;
  const std::int64_t step = run.ranks->from_first(start ? start->state.step : kNone);
  if (start || step == kNone) {
    return start;
  }
  for (const Checkpoint& checkpoint : checkpoints.all()) {
    if (checkpoint.state.step == step) {
      return checkpoint;
    }
  }
  fail(options.out.string(), ": rank ", run.ranks->rank(), " does not see the checkpoint of step ",
       step, " that rank 0 goes on from; the run folder must be on a disk that all machines share");
}

// Of the options that make the result; folders may have other names on other machines.
std::uint64_t options_fingerprint(const Context& context) {
  KeyBuilder key;
  for (const Field& field : context.fields) {
    if (!field.traits.momentary && field.traits.on_resume != OnResume::kFree && !field.is_path()) {
      key.add(field.name).add(field.default_text());
    }
  }
  return key.value();
}

RunResult train_to_the_end(const TrainingOptions& options,
                           const PreparedRun& run,
                           const Context& context) {
  const auto tokens = open_tokens(options, run, context);
  const CorpusSplit split = split_corpus(
      tokens, {.context = options.context, .held_out = held_out_share(options, *tokens)});
  const auto batches = std::make_shared<BatchStream>(
      split, BatchOptions{.batch = options.batch,
                          .seed = static_cast<std::uint64_t>(context.common.seed),
                          .rank = run.ranks ? run.ranks->rank() : 0,
                          .ranks = run.ranks ? run.ranks->size() : 1});
  const bool writes = !run.ranks || run.ranks->is_first();
  std::optional<FolderLock> lock;
  if (writes && fs::exists(options.out)) {
    lock.emplace(options.out);
  }
  const std::optional<Checkpoint> start = find_start(options, run);
  const std::shared_ptr<Decoder> model = run.load(start ? &*start : nullptr);
  if (run.ranks) {
    run.ranks->require_equal(options_fingerprint(context), "options");
    run.ranks->require_equal(fingerprint(*model), "weights");
    run.ranks->require_equal(batches->position().fingerprint, "texts");
  }
  if (start) {
    batches->restore(start->state.position);  // refused before run.toml takes these options
  }
  if (writes) {
    warn_of_long_windows(options.context, model->config());
    fs::create_directories(options.out);
    if (!lock) {
      lock.emplace(options.out);
    }
    if (!start || start->state.step < options.steps) {  // else these options will do nothing
      context.write_run_toml(options.out / "run.toml");
    }
  }
  Trainer trainer(model, batches, trainer_options(options, run), run.teacher, run.ranks);
  return run_training(trainer, run_options(options, run, split, context), start);
}

}  // namespace

void train(const TrainingOptions& options, const PreparedRun& run, Context& context) {
  MemoryPlan plan;
  if (run.planned) {
    plan = check_memory(options, planned_run(options, *run.planned));
    const std::int64_t ranks = ranks_here(options);
    log_info("expects to need ", bytes_text(plan.machine(ranks)), " of memory",
             ranks > 1 ? concat(" for ", ranks, " processes") : std::string());
  }
  if (options.return_memory || options.recompute ||
      2 * plan.machine(ranks_here(options)) > memory_info().available) {
    return_freed_memory();
  }
  RunResult result;
  try {
    result = train_to_the_end(options, run, context);
  } catch (const RankLost& error) {
    end_without_peers(error, options, context);
  }
  if (run.ranks && !run.ranks->is_first()) {
    return;
  }
  if (context.common.json) {
    context.print_json(result_json(result, plan));
  } else {
    print_result(result, plan, context.out);
  }
}

}  // namespace darkformer
