// darkformer analyze: what random features will do to a model's attention, before it is converted.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/analyze.h"

#include <iomanip>
#include <ostream>

#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/base/interrupt.h"
#include "darkformer/checkpoint/model_folder.h"
#include "darkformer/commands/analyze_report.h"
#include "darkformer/commands/convert_options.h"
#include "darkformer/commands/data_files.h"
#include "darkformer/commands/model_options.h"
#include "darkformer/commands/out_place.h"
#include "darkformer/commands/own_text_file.h"
#include "darkformer/evaluation/analysis_file.h"
#include "darkformer/model/decoder.h"
#include "darkformer/model/nonfinite.h"
#include "darkformer/report/page.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;

struct AnalyzeOptions {
  fs::path model;
  std::vector<fs::path> data;
  std::int64_t context = 1024, tokens = 65536;
  std::vector<std::int64_t> features;
  double target = 0.1;
  std::optional<std::int64_t> own_tokens;
  std::optional<fs::path> cache;
  fs::path out;

  void visit(auto&& field) {
    field("model", model, "model folder with exact attention; it is not changed",
          {.positional = true, .required = true});
    field("data", data, "texts: .txt, .jsonl, .json.gz, .zst, or token shards",
          {.empty_means = "the model's own text, which it writes first"});
    field("context", context, "tokens of a window", {.minimum = 2});
    field("tokens", tokens,
          "tokens to read, in windows spread evenly over the text; one window in "
          "eight is held out to measure on",
          {.minimum = 1});
    field("features", features, "numbers of random features to try",
          {.minimum = 1, .empty_means = "half, once, twice and four times the head size"});
    field("target", target, "error of a layer's output that counts as good without training",
          {.minimum = 0.001, .maximum = 1});
    field("own-tokens", own_tokens, kOwnTokensHelp, kOwnTokensTraits);
    field("cache", cache, "folder for tokenised texts",
          {.value_name = "DIR", .empty_means = "~/.cache/darkformer"});
    field("out", out, "folder for analysis.json, moments.safetensors, results.json and report.html",
          {.required = true, .value_name = "DIR"});
  }
};

void print_layers(const ModelAnalysis& analysis, std::ostream& out) {
  out << "layer  advice\n";
  for (const LayerAnalysis& layer : analysis.layers) {
    out << std::setw(5) << layer.layer << "  "
        << (layer.advice.spec.kind == AttentionKind::kExact ? "keep exact: " : "")
        << layer.advice.reason << '\n';
  }
  for (const Correlation& c : analysis.correlations) {
    out << "rank correlation of predicted and measured errors, "
        << count_text(c.features, "feature") << ": " << std::fixed << std::setprecision(2)
        << c.predicted << '\n';
  }
  out << analysis.verdict() << '\n';
}

// Makes the folder before the work, for it may not be possible; of work that fails nothing stays.
ModelAnalysis analyze_into(const fs::path& folder,
                           const AnalysisRun& run,
                           Decoder& model,
                           const Context& context) {
  const bool is_new = fs::create_directories(folder);
  try {
    ModelAnalysis analysis = run_analysis(run, model, context);
    write_analysis_folder(folder, analysis, run, context);
    return analysis;
  } catch (...) {
    std::error_code none;
    if (is_new) {
      fs::remove_all(folder, none);
    }
    throw;
  }
}

// A number of features that no layer can have is refused here as it is by convert.
void check_features(const AnalyzeOptions& o) {
  const ModelConfig config = read_model_config(o.model / "config.json");
  for (const std::int64_t features : o.features) {
    ConvertOptions tried;
    tried.features = features;
    spec_of(tried, config, 0);
  }
}

void analyze(const AnalyzeOptions& o, Context& context) {
  check_outside(o.out, o.model);
  check_out_folder(o.out, holds_results_of("analysis"));
  check_features(o);
  check_own_tokens(o.own_tokens, !o.data.empty());
  AnalysisRun run{o.model, o.data, o.cache.value_or(fs::path()), o.context, {}};
  if (run.data.empty()) {
    run.data = {own_text_file(
        {o.model, o.own_tokens.value_or(kOwnTextTokens), o.context, run.cache}, context)};
  }
  run.options = {o.tokens, o.features, o.target, static_cast<std::uint64_t>(context.common.seed)};
  const std::shared_ptr<Decoder> model = load_model(o.model);
  const ModelAnalysis analysis = analyze_into(o.out, run, *model, context);
  if (context.common.json) {
    OrderedJson object = analysis_json(analysis, o.model.string());
    object.erase("layers");
    object["out"] = o.out.string();
    context.print_json(object);
    return;
  }
  print_layers(analysis, context.out);
  context.out << "wrote " << (o.out / "report.html").string() << " and "
              << (o.out / "analysis.json").string() << '\n';
}

}  // namespace

ModelAnalysis run_analysis(const AnalysisRun& run, Decoder& model, const Context& context) {
  const Tokenizer tokenizer = load_tokenizer(run.model, model.config());
  const EvaluationWindows windows(open_data(run.data, run.cache, tokenizer, context), run.context);
  Progress progress = context.progress("analyze", analysis_tokens(windows, run.options), "tokens");
  std::int64_t shown = 0;
  const auto tell = [&](std::int64_t read) {
    context.stop_if_interrupted("stopped; nothing was written");
    if (shown == 0) {  // the text is long enough: it is read
      warn_of_long_windows(run.context, model.config());
    }
    progress.advance(read - shown);
    shown = read;
  };
  try {
    return analyze_model(model, windows, run.options, tell);
  } catch (const Interrupted&) {
    throw;
  } catch (const Error&) {  // of a matrix, where a weight may be to blame
    const Nonfinite found = find_nonfinite(model);
    require(found.weight.empty(), run.model.string(), ": cannot be analyzed; ", found.cause());
    throw;
  }
}

void write_analysis_folder(const fs::path& folder,
                           const ModelAnalysis& analysis,
                           const AnalysisRun& run,
                           const Context& context) {
  fs::create_directories(folder);
  report::Results results = analysis_results(analysis, run.model.string());
  results.command = context.command_line();
  results.settings = context.settings();
  write_json(folder / "results.json", report::results_json(results));  // first: whose folder it is
  write_analysis(folder, analysis, run.model.string());
  report::write_report(folder / "results.json", folder / "report.html");
}

Command analyze_command() {
  return make_command<AnalyzeOptions>(
      {.name = "analyze",
       .summary = "Measure what random features would do to a model's attention",
       .example = "darkformer analyze gemma-2b --data text.jsonl --out analysis\n"
                  "darkformer analyze gemma-2b --out analysis-of-its-own-text\n"
                  "darkformer convert gemma-2b --analysis analysis --auto --out gemma-2b-auto",
       .details =
           "One pass over the text, with memory that does not grow with it. For every layer and "
           "head: means, spectra and anisotropy of queries and keys, where the attention looks, "
           "and "
           "for every estimator the predicted and the measured error of the attention's output on "
           "held-out tokens; then what to convert each layer to, or why not. Writes report.html, "
           "one page that opens offline, analysis.json and moments.safetensors, from which convert "
           "--analysis takes what it needs, and results.json, the numbers behind the page."},
      analyze);
}

}  // namespace darkformer
