// darkformer eval: loss, perplexity and next-token accuracy of a model on a text.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <ostream>

#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/checkpoint/model_folder.h"
#include "darkformer/commands/attribution.h"
#include "darkformer/commands/command.h"
#include "darkformer/commands/data_files.h"
#include "darkformer/commands/model_options.h"
#include "darkformer/evaluation/evaluator.h"
#include "darkformer/model/decoder.h"
#include "darkformer/model/nonfinite.h"
#include "darkformer/text/evaluation_windows.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kAttributionTokens = 16384;  // each part reads them

struct EvalOptions {
  fs::path model;
  std::vector<fs::path> data;
  std::optional<fs::path> against;
  std::int64_t context = 1024;
  std::int64_t max_tokens = 0;
  std::optional<std::int64_t> batch;
  bool attribution = true;
  std::vector<std::int64_t> probe;
  std::string embed_scale = "float32";
  std::optional<fs::path> cache;

  void visit(auto&& field) {
    field("model", model, "model folder", {.positional = true, .required = true});
    field("data", data, "texts: .txt, .jsonl, .json.gz, .zst, or token shards", {.required = true});
    field("context", context, "tokens of a window", {.minimum = 1});
    field("against", against, "model folder to compare with: KL and top-1 agreement",
          {.value_name = "BASE", .empty_means = "none"});
    field("max-tokens", max_tokens, "stop after about so many tokens; 0: all", {.minimum = 0});
    field("batch", batch, "windows read at once",
          {.minimum = 1, .empty_means = "as many as make 4096 tokens"});
    field("attribution", attribution,
          "of a converted model also measure parts of its attention, and the far-field probe");
    field("probe", probe, "distances at which the probe copies and recalls",
          {.minimum = 4, .empty_means = "three beyond the window; none for an exact model"});
    field("embed-scale", embed_scale, kEmbedScaleHelp, kEmbedScaleTraits);
    field("cache", cache, "folder for tokenised texts",
          {.value_name = "DIR", .empty_means = "~/.cache/darkformer"});
  }
};

std::shared_ptr<Decoder> load(const fs::path& folder, const EvalOptions& options) {
  return load_model(folder, {.embed_scale = embed_scale_of(options.embed_scale)});
}

EvaluationResult evaluate_model(const EvalOptions& options,
                                const EvaluationWindows& windows,
                                Evaluator& evaluator,
                                Context& context) {
  const std::int64_t rows = options.batch.value_or(evaluation_rows(options.context));
  const std::int64_t tokens =
      options.max_tokens == 0 ? windows.tokens() : std::min(options.max_tokens, windows.tokens());
  Progress progress = context.progress("eval", tokens, "tokens");
  for (std::int64_t first = 0; first < windows.size();) {
    if (evaluator.result().all.tokens >= tokens) {
      break;
    }
    context.stop_if_interrupted(concat("stopped after ", evaluator.result().all.tokens, " of ",
                                       count_text(tokens, "token"),
                                       "; nothing is kept of an evaluation"));
    // Not more windows than the rest of the tokens needs.
    const std::int64_t rest = tokens - evaluator.result().all.tokens;
    const TokenBatch batch =
        windows.read_batch(first, std::min(rows, (rest + options.context - 1) / options.context));
    evaluator.add(batch);
    first += batch.rows;
    progress.advance(std::min(rest, batch.rows * batch.context));
    progress.note(concat("loss ", std::setprecision(4), evaluator.result().all.loss()));
  }
  return evaluator.result();
}

void print_row(const Measures& measures, bool compared, std::ostream& out) {
  out << std::fixed << std::setprecision(4) << std::setw(10) << measures.loss() << std::setw(12)
      << measures.perplexity() << std::setw(10) << measures.accuracy();
  if (compared) {
    out << std::setw(10) << measures.kl() << std::setw(11) << measures.agreement();
  }
  out << std::setw(12) << measures.tokens << '\n';
}

void print_table(const EvaluationResult& result, std::ostream& out) {
  out << std::left << std::setw(16) << "position" << std::right << std::setw(10) << "loss"
      << std::setw(12) << "perplexity" << std::setw(10) << "accuracy";
  if (result.compared) {
    out << std::setw(10) << "KL" << std::setw(11) << "agreement";
  }
  out << std::setw(12) << "tokens" << '\n';
  for (std::size_t b = 0; b < result.by_position.size(); ++b) {
    const auto bucket = static_cast<std::int64_t>(b);
    const std::string name = concat(bucket_begin(bucket), " - ", bucket_begin(bucket + 1) - 1);
    out << std::left << std::setw(16) << name << std::right;
    print_row(result.by_position[b], result.compared, out);
  }
  out << std::left << std::setw(16) << "all" << std::right;
  print_row(result.all, result.compared, out);
}

// Which parts and distances: those that fit the model, unless the user chose.
AttributionRun attribution_run(const EvalOptions& options,
                               const ModelConfig& config,
                               std::int64_t tokens) {
  AttributionRun run{.tokens = std::min(tokens, kAttributionTokens),
                     .rows = options.batch.value_or(evaluation_rows(options.context))};
  if (options.attribution) {
    run.parts = attention_parts(config);
  }
  if (run.parts.empty() && !options.probe.empty()) {
    run.parts = {AttentionPart::kAll};
  }
  run.distances = options.probe.empty() ? probe_distances(config) : options.probe;
  for (const std::int64_t distance : options.probe) {
    require(probe_length(distance) <= config.max_positions, "--probe: distance ", distance,
            " needs ", probe_length(distance), " tokens; the model has positions for ",
            config.max_positions);
  }
  return run;
}

void eval(const EvalOptions& options, Context& context) {
  const std::shared_ptr<Decoder> model = load(options.model, options);
  const Tokenizer tokenizer = load_tokenizer(options.model, model->config());
  const std::shared_ptr<Decoder> base = options.against ? load(*options.against, options) : nullptr;
  const EvaluationWindows windows(
      open_data(options.data, options.cache.value_or(fs::path()), tokenizer, context),
      options.context);
  Evaluator evaluator(model, base);
  warn_of_long_windows(options.context, model->config());
  const EvaluationResult result = evaluate_model(options, windows, evaluator, context);
  if (!std::isfinite(result.all.loss())) {
    fail(options.model.string(), ": the loss on this text is ", result.all.loss(), "; ",
         find_nonfinite(*model).cause());
  }
  const AttributionRun run = attribution_run(options, model->config(), result.all.tokens);
  const std::vector<PartResult> parts = attribute(run, model, base, windows, context);
  if (context.common.json) {
    OrderedJson object = evaluation_json(result);
    if (!parts.empty()) {
      object["attribution"] = attribution_json(parts);
    }
    context.print_json(object);
  } else {
    print_table(result, context.out);
    print_attribution(parts, context.out);
  }
}

}  // namespace

Command eval_command() {
  return make_command<EvalOptions>(
      {.name = "eval",
       .summary = "Measure loss, perplexity and next-token accuracy of a model on a text",
       .example = "darkformer eval gemma-2b --data speeches.txt --context 1024 --json",
       .details = "The text is one stream of tokens, cut into windows of --context tokens without "
                  "overlap. Each window is read behind a BOS, which is not a target; the means are "
                  "over all tokens of the text, also by position in the window. With --against "
                  "also KL(BASE || MODEL) and how often both models put the same token first.\n"
                  "Of a converted model also, on the first 16384 tokens, the same weights with the "
                  "window alone, with the features for every key (linear only), and with the far "
                  "field replaced by the mean of its values; without a window, full is linear "
                  "only. Beside them a probe of the far field, made of random tokens of the text: "
                  "copy (d tokens, then the same again) and recall (16 pairs, asked for d tokens "
                  "later); the share of right tokens at each distance."},
      eval);
}

}  // namespace darkformer
