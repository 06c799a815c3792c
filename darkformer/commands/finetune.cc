// darkformer finetune: train a model folder further.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "darkformer/base/error.h"
#include "darkformer/checkpoint/model_folder.h"
#include "darkformer/commands/model_options.h"
#include "darkformer/commands/out_place.h"
#include "darkformer/commands/training_options.h"
#include "darkformer/commands/training_ranks.h"
#include "darkformer/model/decoder.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;

struct FinetuneOptions : TrainingOptions {
  fs::path model;
  std::string scope = "all";
  std::vector<std::string> freeze;
  std::string embed_scale = "float32";
  std::optional<fs::path> teacher;
  std::optional<double> distill_logits, distill_attention, loss_weight;

  void visit(auto&& field) {
    field("model", model, "model folder to start from",
          {.positional = true, .required = true, .on_resume = OnResume::kStart});
    visit_files(field, "darkformer sample writes a text of the model's own");
    field("train", scope,
          "what is trained: all, or the attention's q, k, v projections, covariance and gates",
          {.choices = {"all", "attention"}, .on_resume = OnResume::kFixed});
    field("freeze", freeze,
          "parameters that are left as they are all the same, by the end of their names: factor, "
          "gate_scale, mlp.up_proj.weight, ...",
          {.value_name = "NAME", .on_resume = OnResume::kFixed});
    visit_steps(field);
    visit_watching(field);
    visit_scale(field);
    field("embed-scale", embed_scale, kEmbedScaleHelp, kEmbedScaleTraits);
    field("teacher", teacher, "model folder to learn from besides the text",
          {.value_name = "MODEL", .empty_means = "none"});
    field("distill-logits", distill_logits, "weight of KL(teacher || model), with --teacher",
          {.minimum = 0, .empty_means = "1"});
    field("distill-attention", distill_attention,
          "weight of the distance between the outputs of both models' attention, layer by layer, "
          "with --teacher",
          {.minimum = 0, .empty_means = "0"});
    field("loss-weight", loss_weight, "weight of the next-token loss, with --teacher",
          {.minimum = 0, .empty_means = "1"});
  }
};

TrainScope scope_of(const FinetuneOptions& options) {
  return options.scope == "all" ? TrainScope::kAll : TrainScope::kAttention;
}

LoadOptions load_options(const FinetuneOptions& options) {
  const TrainScope scope = scope_of(options);
  return {.embed_scale = embed_scale_of(options.embed_scale),
          .trains = [scope, &options](const std::string& name) {
            return is_trained(scope, name) && !is_named(options.freeze, name);
          }};
}

// A name that fits nothing is a mistake, not a wish that was granted.
void check_frozen(const std::vector<std::string>& freeze, const Decoder& model) {
  for (const std::string& end : freeze) {
    const auto parameters = model.named_parameters();
    require(std::any_of(parameters.begin(), parameters.end(),
                        [&](const auto& entry) { return is_named({end}, entry.key()); }),
            "--freeze: the model has no parameter whose name ends in ", end);
  }
}

std::shared_ptr<Decoder> load_teacher(const FinetuneOptions& options) {
  return options.teacher ? load_model(*options.teacher) : nullptr;
}

DistillationOptions distillation(const FinetuneOptions& options) {
  if (!options.teacher &&
      (options.distill_logits || options.distill_attention || options.loss_weight)) {
    throw UsageError(
        "--distill-logits, --distill-attention and --loss-weight weigh what a teacher says; "
        "give --teacher");
  }
  return {options.loss_weight.value_or(1), options.distill_logits.value_or(1),
          options.distill_attention.value_or(0)};
}

void finetune(const FinetuneOptions& options, Context& context) {
  check_outside(options.out, options.model);
  check_training_options(options, context);
  const DistillationOptions weights = distillation(options);
  const ModelConfig config = read_model_config(options.model / "config.json");
  const auto ranks = enter_ranks(options, context);
  if (!ranks) {
    return;
  }
  PreparedRun run{
      load_tokenizer(options.model, config), options.model, {}, load_teacher(options), {}, *ranks};
  run.planned = PlannedRun{.config = config, .scope = scope_of(options)};
  if (run.teacher) {
    run.planned->teacher = run.teacher->config();
    run.planned->distills_logits = weights.logits_weight > 0;
  }
  run.distillation = weights;
  run.load = [&](const Checkpoint* start) {
    auto model =
        load_model(start != nullptr ? start->folder : options.model, load_options(options));
    check_frozen(options.freeze, *model);
    require(!run.teacher || run.teacher->config().vocab_size == model->config().vocab_size,
            options.teacher.value_or(fs::path()).string(),
            ": its vocabulary is not that of the model; a teacher needs the same");
    return model;
  };
  train(options, run, context);
}

}  // namespace

Command finetune_command() {
  return make_command<FinetuneOptions>(
      {.name = "finetune",
       .summary = "Train a model further on texts",
       .example = "darkformer finetune gemma-2b-dark --data c4.json.gz --train attention --steps "
                  "1000 --out run\n"
                  "darkformer finetune --config run/run.toml --resume",
       .details =
           "Texts are tokenised once, packed into windows of --context tokens and shuffled; "
           "some are held out and measured. AdamW in float32. A run that was stopped, by "
           "Ctrl-C, a full disk or a power cut, goes on with --resume and ends with the same "
           "bits as one that was not (same machine and --threads).",
       .config = true},
      finetune);
}

}  // namespace darkformer
