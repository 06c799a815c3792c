// The options that finetune and pretrain share, and the run they describe.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "darkformer/commands/command.h"
#include "darkformer/text/tokenizer.h"
#include "darkformer/training/run_plan.h"
#include "darkformer/training/training_run.h"

namespace darkformer {

// Beyond these, products of sizes overflow.
inline constexpr double kMostWindows = 1 << 24, kLongestContext = 1 << 30;

struct TrainingOptions {
  std::vector<std::filesystem::path> data;
  std::filesystem::path out;
  bool resume = false;
  std::int64_t steps = 1000;
  std::int64_t batch = 8;
  std::int64_t micro_batch = 0;
  std::int64_t context = 1024;
  double lr = 1e-4;
  double factor_lr_scale = 1;
  std::string schedule = "cosine";
  std::int64_t warmup = 0;
  double final_lr = 0.1;
  std::string optimizer = "adamw";
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  double clip = 1;
  std::string redraw = "never";
  std::optional<double> held_out;
  std::int64_t eval_every = 0;
  std::int64_t eval_windows = 64;
  std::int64_t checkpoint_every = 100;
  std::int64_t keep = 2;
  bool skip_nonfinite = false;
  bool tensorboard = false;
  std::string final_type = "float32";
  std::optional<std::filesystem::path> cache;
  bool recompute = false;
  bool ignore_memory = false;
  bool return_memory = false;
  std::int64_t nproc = 1;
  std::int64_t timeout = 600;

  // `advice`: what to do without texts.
  void visit_files(auto&& field, const std::string& advice = {}) {
    field("data", data, "texts: .txt, .jsonl, .json.gz, .zst, or token shards",
          {.required = true,
           .advice = advice,
           .on_resume = OnResume::kFree});  // other texts are refused, moved ones not
    field("out", out, "run folder: run.toml, log.jsonl, checkpoints/, final/",
          {.required = true, .value_name = "RUN", .on_resume = OnResume::kFree});
    field(
        "resume", resume,
        "go on from the last checkpoint of the run folder, to the same bits; what is not given is "
        "as the run began",
        {.momentary = true});
    field(
        "cache", cache, "folder for tokenised texts",
        {.value_name = "DIR", .empty_means = "~/.cache/darkformer", .on_resume = OnResume::kFree});
  }

  void visit_steps(auto&& field) {
    field("steps", steps, "steps of the whole run", {.minimum = 1});
    field("batch", batch, "windows of a step", {.minimum = 1, .maximum = kMostWindows});
    field("micro-batch", micro_batch,
          "windows of one forward and backward pass, gradients are accumulated; 0: all",
          {.minimum = 0, .on_resume = OnResume::kFree});
    field("context", context, "tokens of a window",
          {.minimum = 1, .maximum = kLongestContext, .on_resume = OnResume::kFixed});
    field("lr", lr, "learning rate at its peak", {.minimum = 0});
    field("factor-lr-scale", factor_lr_scale,
          "learning rate of M, the factor of the covariance, over that of the others",
          {.minimum = 0});
    field("schedule", schedule, "learning rate after the warm-up",
          {.choices = {"cosine", "constant"}});
    field("warmup", warmup, "steps in which the learning rate rises", {.minimum = 0});
    field("final-lr", final_lr, "end of the cosine, as a share of the peak",
          {.minimum = 0, .maximum = 1});
    field("optimizer", optimizer, "update rule",
          {.choices = {"adamw", "sgd"}, .on_resume = OnResume::kFixed});
    field("beta1", beta1, "AdamW's memory of gradients", {.minimum = 0, .maximum = 1});
    field("beta2", beta2, "AdamW's memory of their squares", {.minimum = 0, .maximum = 1});
    field("epsilon", epsilon, "AdamW's guard against division by zero", {.minimum = 0});
    field("weight-decay", weight_decay, "decoupled decay of matrices; norms, M and gates have none",
          {.minimum = 0});
    field("clip", clip, "largest norm of the whole gradient; 0: no limit", {.minimum = 0});
    field("redraw", redraw,
          "when random features are drawn anew: never, step, or every N steps; learned and fitted "
          "ones stay",
          {.value_name = "never|step|N"});
  }

  void visit_watching(auto&& field) {
    field("held-out", held_out, "share of the text kept for measuring",
          {.minimum = 0,
           .maximum = 0.5,
           .empty_means = "0.01, nothing of a short text",
           .on_resume = OnResume::kFixed});
    field("eval-every", eval_every, "steps between held-out measurements; 0: with checkpoints",
          {.minimum = 0, .on_resume = OnResume::kFree});
    field("eval-windows", eval_windows, "held-out windows measured",
          {.minimum = 1, .on_resume = OnResume::kFree});
    field("checkpoint-every", checkpoint_every, "steps between checkpoints",
          {.minimum = 1, .on_resume = OnResume::kFree});
    field("keep", keep, "newest checkpoints kept, besides the best",
          {.minimum = 1, .on_resume = OnResume::kFree});
    field("skip-nonfinite", skip_nonfinite,
          "leave out steps whose loss or gradient is not finite instead of stopping",
          {.on_resume = OnResume::kFree});
    field("tensorboard", tensorboard, "also write event files into RUN/tensorboard",
          {.on_resume = OnResume::kFree});
    field("final-type", final_type, "type of the weights in final/",
          {.choices = {"float32", "bfloat16"}, .on_resume = OnResume::kFree});
  }

  void visit_scale(auto&& field) {
    field("recompute", recompute,
          "keep only the input of each layer for the backward pass and compute the rest again: "
          "less memory, a third more time, the same bits; with --return-memory",
          {.on_resume = OnResume::kFree});
    field("ignore-memory", ignore_memory, "start even if the memory is predicted not to suffice",
          {.on_resume = OnResume::kFree});
    field("return-memory", return_memory,
          "give freed memory back to the system at once, which is slower; done unasked with "
          "--recompute, and by a run that needs more than half of what is left",
          {.on_resume = OnResume::kFree});
    field("nproc", nproc,
          "processes on this machine that share each batch; several machines: docs/distributed.md",
          {.minimum = 1, .maximum = 1024, .on_resume = OnResume::kFree});
    field(
        "timeout", timeout,
        "several processes: seconds without an answer from one, once all have met, after which all "
        "end",
        {.minimum = 1, .maximum = 1e9, .on_resume = OnResume::kFree});
  }
};

// A run as its command prepares it. load gives the model: from the checkpoint to go on from, or
// null for the start.
struct PreparedRun {
  Tokenizer tokenizer;
  std::filesystem::path companions;  // folder of the tokenizer's files
  std::function<std::shared_ptr<Decoder>(const Checkpoint* start)> load;
  std::shared_ptr<Decoder> teacher;
  DistillationOptions distillation;
  std::shared_ptr<Ranks> ranks = nullptr;  // null: one process
  std::optional<PlannedRun> planned = {};  // what is trained; the rest comes from the options
};

// UsageError: a run folder that holds a run already, without --resume; values that do not fit, or
// not the run that is to go on. Says with which options the run goes on that it did not have.
void check_training_options(const TrainingOptions& options, const Context& context);

// The plan of a run with these options, and the largest memory it will need. Error: more than the
// machine has left, unless --ignore-memory.
PlannedRun planned_run(const TrainingOptions& options, PlannedRun trained);
MemoryPlan check_memory(const TrainingOptions& options, const PlannedRun& planned);

// Opens the data, trains to the end and prints what came out. Ends the process when another rank
// is gone.
void train(const TrainingOptions& options, const PreparedRun& run, Context& context);

}  // namespace darkformer
