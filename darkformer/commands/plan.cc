// darkformer plan: what a training run will need, before it starts.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <ostream>

#include "darkformer/base/count_text.h"
#include "darkformer/base/system_info.h"
#include "darkformer/base/threads.h"
#include "darkformer/commands/attention_text.h"
#include "darkformer/commands/command.h"
#include "darkformer/commands/training_options.h"
#include "darkformer/kernels/yardstick.h"
#include "darkformer/model/model_shapes.h"
#include "darkformer/training/run_plan.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;

struct PlanOptions {
  std::string model;
  std::string scope = "all";
  std::string optimizer = "adamw";
  bool recompute = false;
  std::int64_t batch = 8;
  std::int64_t micro_batch = 0;
  std::int64_t context = 1024;
  std::int64_t steps = 1000;
  std::int64_t ranks = 1;
  std::int64_t ranks_per_machine = 1;
  std::optional<std::string> attention;
  std::optional<std::int64_t> features;
  std::int64_t window = 0;
  std::optional<double> memory;
  std::optional<double> gflops;
  double bandwidth = 10;

  void visit(auto&& field) {
    field("model", model,
          "model folder, config.json, or the name of a released size: gemma-2b, gemma-3-1b, ...",
          {.positional = true, .required = true, .value_name = "MODEL|SHAPE"});
    field("ranks", ranks, "processes that share each batch",
          {.minimum = 1, .maximum = kMostWindows});
    field("ranks-per-machine", ranks_per_machine, "how many of them run on one machine",
          {.minimum = 1});
    field("train", scope, "what is trained, as for finetune", {.choices = {"all", "attention"}});
    field("batch", batch, "windows of a step, of all ranks together",
          {.minimum = 1, .maximum = kMostWindows});
    field("micro-batch", micro_batch, "windows of one pass of a rank; 0: all it has",
          {.minimum = 0});
    field("context", context, "tokens of a window", {.minimum = 1, .maximum = kLongestContext});
    field("steps", steps, "steps of the whole run", {.minimum = 1, .maximum = 1e12});
    field("recompute", recompute, "layers are computed again in the backward pass, not kept");
    field("optimizer", optimizer, "update rule", {.choices = {"adamw", "sgd"}});
    field("attention", attention, "as if every layer had this kind of attention",
          {.choices = {"exact", "performer", "dark", "lfk", "importance", "oprf", "sderf", "aderf",
                       "hedgehog", "window", "constant", "random"},
           .empty_means = "as the model has it"});
    field("features", features, "random features of each head, with --attention",
          {.minimum = 1, .empty_means = "the head size"});
    field("window", window, "nearest keys that stay exact, with --attention", {.minimum = 0});
    field("memory", memory, "GiB of a machine",
          {.minimum = 1e-3, .maximum = 1e9, .empty_means = "as many as this one has"});
    field("gflops", gflops, "billions of operations a second that products of one rank reach",
          {.minimum = 1e-3,
           .empty_means = "measured on this machine with --threads, shared by its ranks"});
    field("bandwidth", bandwidth, "Gbit/s between two ranks", {.minimum = 1e-3});
  }
};

ModelConfig config_of(const PlanOptions& options) {
  const fs::path path = options.model;
  if (fs::exists(path)) {
    return read_model_config(fs::is_directory(path) ? path / "config.json" : path);
  }
  const auto shape = find_model_shape(options.model);
  require(shape.has_value(), options.model, ": neither a model folder nor a known size; sizes are ",
          model_shape_names());
  return *shape;
}

// UsageError: options that mean nothing to this kind, or a window that is missing.
void check_attention(const PlanOptions& options, AttentionKind kind) {
  require_window(kind, options.window);
  if (options.features && !has_features(kind)) {
    throw UsageError(concat("--features has no meaning with --attention ", *options.attention));
  }
  if (options.window > 0 && kind != AttentionKind::kWindow && !has_features(kind)) {
    throw UsageError(concat("--window has no meaning with --attention ", *options.attention));
  }
}

PlannedRun run_of(const PlanOptions& options) {
  if (!options.attention && (options.features || options.window > 0)) {
    throw UsageError("--features and --window have a meaning with --attention only");
  }
  PlannedRun run;
  run.config = config_of(options);
  if (options.attention) {
    AttentionSpec spec{.kind = *find_attention_kind(*options.attention), .window = options.window};
    check_attention(options, spec.kind);
    for (std::int64_t i = 0; i < run.config.layers; ++i) {
      if (has_features(spec.kind)) {
        spec.rank = run.config.head_dim_of(i);
        spec.features = options.features.value_or(spec.rank);
        spec.near = usual_near_kernel(spec.kind);
      }
      run.config.attention[static_cast<std::size_t>(i)] = spec;
    }
    check_model_config(run.config, "plan");
  }
  run.scope = options.scope == "all" ? TrainScope::kAll : TrainScope::kAttention;
  run.optimizer = options.optimizer == "sgd" ? OptimizerKind::kSgd : OptimizerKind::kAdamw;
  run.recompute = options.recompute;
  run.batch = options.batch;
  run.pass_rows = options.micro_batch;
  run.context = options.context;
  run.ranks = options.ranks;
  run.threads = threads();
  run.measures_held_out = true;
  return run;
}

// The rate of products here, on one thread, times the threads that so many ranks leave to each.
double measured_gflops(std::int64_t ranks_here) {
  const int all = threads();
  set_threads(1);
  const double one = kernels::Yardstick().gflops();
  set_threads(all);
  return one * all / static_cast<double>(ranks_here);
}

struct Result {
  PlannedRun run;
  MemoryPlan memory;
  StepPlan step;
  double gflops = 0;
  std::int64_t machines = 1;
  std::int64_t machine_bytes = 0;  // needed on one machine
  std::int64_t available = 0;      // there

  bool fits() const { return machine_bytes <= available; }
};

Result plan_of(const PlanOptions& options) {
  Result result;
  result.run = run_of(options);
  const std::int64_t here = std::min(options.ranks, options.ranks_per_machine);
  result.memory = plan_memory(result.run);
  result.machines = (options.ranks + here - 1) / here;
  result.machine_bytes = result.memory.machine(here);
  constexpr double kGiB = 1 << 30;
  result.available = options.memory ? std::llround(*options.memory * kGiB) : memory_info().total;
  result.gflops = options.gflops ? *options.gflops : measured_gflops(here);
  result.step = plan_step(result.run,
                          {.flops = 1e9 * result.gflops, .bandwidth = 1e9 / 8 * options.bandwidth});
  return result;
}

OrderedJson json_of(const PlanOptions& options, const Result& result) {
  const MemoryPlan& memory = result.memory;
  const StepPlan& step = result.step;
  return {{"parameters", parameter_count(result.run.config)},
          {"trained", trained_count(result.run.config, result.run.scope)},
          {"ranks", options.ranks},
          {"machines", result.machines},
          {"memory",
           {{"mapped", memory.mapped},
            {"weights", memory.weights},
            {"moments", memory.moments},
            {"gradients", memory.gradients},
            {"activations", memory.activations},
            {"scratch", memory.scratch},
            {"program", memory.program},
            {"peak", memory.peak()}}},
          {"machine_bytes", result.machine_bytes},
          {"machine_memory", result.available},
          {"fits", result.fits()},
          {"gflops", result.gflops},
          {"step",
           {{"tokens", step.tokens},
            {"flops", step.forward_flops + step.backward_flops},
            {"sent_bytes", step.sent_bytes},
            {"compute_seconds", step.compute_seconds},
            {"traffic_seconds", step.traffic_seconds},
            {"seconds", step.seconds}}},
          {"seconds", step.seconds * static_cast<double>(options.steps)}};
}

// Steps may be short.
std::string step_time(double seconds) {
  return seconds < 10 ? concat(std::setprecision(2), seconds, " s") : duration_text(seconds);
}

void print(const PlanOptions& options, const Result& result, std::ostream& out) {
  const MemoryPlan& memory = result.memory;
  const StepPlan& step = result.step;
  const auto bytes = [&](const char* name, std::int64_t count, const char* remark) {
    out << "  " << std::left << std::setw(12) << name << std::right << std::setw(11)
        << bytes_text(count) << "  " << remark << "\n";
  };
  const auto count = [](std::int64_t number) { return quantity_text(static_cast<double>(number)); };
  out << "model       " << count(parameter_count(result.run.config)) << " parameters, "
      << count(trained_count(result.run.config, result.run.scope)) << " trained; "
      << count_text(options.ranks, "rank") << " on " << count_text(result.machines, "machine")
      << "\n"
      << "memory of a rank at its highest\n";
  bytes("mapped", memory.mapped, "weights in the files' pages, shared on a machine");
  bytes("weights", memory.weights, "trained, float32");
  bytes("moments", memory.moments, "of the optimiser");
  bytes("gradients", memory.gradients, "");
  bytes("activations", memory.activations, "kept for the backward pass");
  bytes("scratch", memory.scratch, "of the loss or one layer");
  bytes("program", memory.program, "");
  bytes("peak", memory.peak(), "");
  out << "machine     " << bytes_text(result.machine_bytes) << " of "
      << bytes_text(result.available) << ": " << (result.fits() ? "fits" : "DOES NOT FIT") << "\n"
      << "step        " << count_text(step.tokens, "token") << ", " << step_time(step.seconds)
      << ": arithmetic " << step_time(step.compute_seconds) << " at "
      << quantity_text(result.gflops) << " GFLOP/s a rank, traffic "
      << step_time(step.traffic_seconds) << "\n"
      << "traffic     " << bytes_text(std::llround(step.sent_bytes))
      << " sent and as much received by each rank in a step, at " << options.bandwidth
      << " Gbit/s\n"
      << "run         " << count_text(options.steps, "step") << ", "
      << count(step.tokens * options.steps) << " tokens, "
      << duration_text(step.seconds * static_cast<double>(options.steps)) << ", "
      << quantity_text(static_cast<double>(step.tokens) / step.seconds) << " tokens/s\n";
}

void plan(const PlanOptions& options, Context& context) {
  const Result result = plan_of(options);
  if (context.common.json) {
    context.print_json(json_of(options, result));
  } else {
    print(options, result, context.out);
  }
}

}  // namespace

Command plan_command() {
  return make_command<PlanOptions>(
      {.name = "plan",
       .summary = "Predict memory, traffic and time of a training run",
       .example = "darkformer plan gemma-2b --train attention --batch 1 --recompute\n"
                  "darkformer plan gemma-2b --ranks 64 --batch 64 --memory 64 --gflops 2000",
       .details = "From the sizes of the model alone: no weights are read. finetune and pretrain "
                  "make the same prediction before they start and refuse a run that does not fit "
                  "into the memory that is left. Peaks are right to about a fifth where freed "
                  "memory is returned (--recompute, --return-memory); times are rough "
                  "estimates, from the rate of large products and a usual share of it."},
      plan);
}

}  // namespace darkformer
