// darkformer linearize: from a model to a finetuned one with linear-time attention, in one command.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <iomanip>
#include <ostream>

#include "darkformer/base/content_key.h"
#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/base/log.h"
#include "darkformer/commands/command.h"
#include "darkformer/commands/convert_options.h"
#include "darkformer/commands/data_files.h"
#include "darkformer/commands/linearize_report.h"
#include "darkformer/commands/model_options.h"
#include "darkformer/commands/out_place.h"
#include "darkformer/commands/own_text_file.h"
#include "darkformer/commands/stages.h"
#include "darkformer/commands/subcommand.h"
#include "darkformer/model/attention_spec.h"
#include "darkformer/model/decoder.h"
#include "darkformer/report/page.h"
#include "darkformer/text/held_out_shard.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

struct LinearizeOptions {
  fs::path model;
  std::vector<fs::path> data, eval_data;
  fs::path out;
  std::string attention = "dark";
  std::optional<std::int64_t> features;
  std::optional<double> rank_share;
  std::int64_t window = 16;
  bool centre = true, analyze = true, fit = true;
  std::int64_t fit_steps = 400, keep_worst = 0;
  std::optional<std::int64_t> budget;
  std::vector<std::string> keep_exact;
  std::int64_t steps = 1000, transfer_steps = 0;
  std::optional<std::int64_t> tokens;
  std::string train = "attention";
  std::int64_t batch = 8, context = 1024;
  double lr = 2e-4, factor_lr_scale = 1;
  std::int64_t checkpoint_every = 100, eval_tokens = 65536, analysis_tokens = 65536;
  std::optional<std::int64_t> own_tokens;
  std::optional<fs::path> cache;

  void visit(auto&& field) {
    field("model", model, "model folder to start from; it is not changed",
          {.positional = true, .required = true});
    field("data", data, "texts: .txt, .jsonl, .json.gz, .zst, or token shards",
          {.empty_means = "the model's own text, which it writes first"});
    field("own-tokens", own_tokens, kOwnTokensHelp,
          {.minimum = 1, .empty_means = "what finetuning reads, 1048576 at most"});
    field("out", out, "folder of the whole", {.required = true, .value_name = "DIR"});
    field("eval-data", eval_data, "texts to measure on",
          {.empty_means = "a twentieth of --data, held out"});
    field("attention", attention, "attention of the converted layers",
          {.choices = {"performer", "dark", "lfk", "importance", "oprf", "sderf", "aderf",
                       "hedgehog"}});
    field("features", features, "random features per head",
          {.minimum = 1, .empty_means = "the head size"});
    field("rank-share", rank_share,
          "rank of each layer's covariance: as many directions as hold this share of the variance "
          "of queries and keys (dark)",
          {.empty_means = "the head size"});
    field("window", window, "nearest keys that stay exact; 0: linear attention alone",
          {.minimum = 0});
    field(
        "centre", centre,
        "centre queries and keys by their means over --data (not hedgehog, which has no centres)");
    field("fit", fit, "bring each head close to the exact attention before anything is trained");
    field("fit-steps", fit_steps, "steps of the fit of each head", {.minimum = 1});
    field("keep-worst", keep_worst,
          "so many of the fitted layers stay exact: those whose fit comes out worst",
          {.minimum = 0});
    field("keep-exact", keep_exact, "layers to leave exact, counted from 0: numbers or ranges",
          {.value_name = "LAYERS"});
    field("analyze", analyze, "look first at what random features will do to each layer");
    field(
        "budget", budget,
        "let the analysis choose attention, features and window of each layer, or keep it "
        "exact, so that the decoding state takes at most these bytes at the model's longest text",
        {.value_name = "BYTES", .minimum = 1, .empty_means = "as the options say, in every layer"});
    field("steps", steps, "steps of finetuning", {.minimum = 1});
    field("tokens", tokens, "tokens to finetune on, instead of --steps",
          {.minimum = 1, .empty_means = "--steps times --batch times --context"});
    field("transfer-steps", transfer_steps,
          "steps before it in which each layer's attention alone learns from the original's",
          {.minimum = 0});
    field("train", train, "what finetuning trains", {.choices = {"all", "attention"}});
    field("batch", batch, "windows of a step", {.minimum = 1});
    field("context", context, "tokens of a window", {.minimum = 1});
    field("lr", lr, "learning rate at its peak", {.minimum = 0});
    field("factor-lr-scale", factor_lr_scale, "learning rate of M over that of the others",
          {.minimum = 0});
    field("checkpoint-every", checkpoint_every, "steps between checkpoints", {.minimum = 1});
    field("analysis-tokens", analysis_tokens, "tokens to analyze", {.minimum = 1});
    field("eval-tokens", eval_tokens, "tokens to measure on, at most", {.minimum = 1});
    field("cache", cache, "folder for tokenised texts",
          {.value_name = "DIR", .empty_means = "~/.cache/darkformer"});
  }
};

constexpr double kHeldOutShare = 0.05;
constexpr std::int64_t kMostOwnTokens = 1 << 20;

std::string word_of(const auto& value) {
  return concat(value);
}
// The shortest text that reads back as the same number.
std::string word_of(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

template <class... Parts>
void add_words(Words& words, const Parts&... parts) {
  (words.push_back(word_of(parts)), ...);
}

void add_files(Words& words, const char* flag, const std::vector<fs::path>& files) {
  for (const fs::path& file : files) {
    add_words(words, flag, file.string());
  }
}

class Linearization {
 public:
  Linearization(const LinearizeOptions& options, Context& context)
      : o_(options),
        context_(context),
        inputs_(input_keys(options)),
        stages_(options.out, context, first_read()) {}

  void run() {
    stages_.keep_inputs(inputs_);
    if (o_.data.empty()) {
      sample();
    }
    if (o_.eval_data.empty()) {
      stages_.run("hold-out", [&] { return hold_out(); });
    }
    facts_.base = stage("eval-original", eval_words(o_.model, {"--no-attribution"}));
    if (o_.analyze) {
      facts_.analysis = stage("analyze", analyze_words(), analysis());
    }
    facts_.conversion = convert();
    facts_.converted =
        stage("eval-converted",
              eval_words(converted(), {"--against", o_.model.string(), "--no-attribution"}));
    if (o_.transfer_steps > 0) {
      stage("transfer", transfer_words());
      facts_.logs.push_back(transferred() / "log.jsonl");
    }
    stage("finetune", finetune_words());
    facts_.logs.push_back(tuned() / "log.jsonl");
    facts_.tuned =
        stage("eval-finetuned", eval_words(tuned() / "final", {"--against", o_.model.string()}));
    report();
  }

 private:
  // A budget that cannot be met, or an attention that cannot be, is found out after the analysis,
  // which is not to be done again for another.
  static std::map<std::string, std::string> first_read() {
    std::map<std::string, std::string> options;
    for (const char* name : {"budget", "attention", "features", "rank-share", "window", "centre",
                             "keep-exact", "fit", "fit-steps", "keep-worst"}) {
      options[name] = "convert";
    }
    return options;
  }

  static std::map<std::string, std::uint64_t> input_keys(const LinearizeOptions& o) {
    return {{"MODEL", content_key({o.model})},
            {"--data", content_key(o.data)},
            {"--eval-data", content_key(o.eval_data)}};
  }

  fs::path analysis() const { return o_.out / "analysis"; }
  fs::path converted() const { return o_.out / "converted"; }
  fs::path transferred() const { return o_.out / "transfer"; }
  fs::path tuned() const { return o_.out / "finetune"; }
  fs::path own_text() const { return o_.out / "own-text.jsonl"; }
  // What everything reads.
  std::vector<fs::path> texts() const {
    return o_.data.empty() ? std::vector<fs::path>{own_text()} : o_.data;
  }
  fs::path held_out() const { return o_.out / "held-out.tokens"; }
  std::int64_t steps() const {
    const std::int64_t step = o_.batch * o_.context;
    return o_.tokens ? (*o_.tokens + step - 1) / step : o_.steps;
  }

  // Does convert find something to fit?
  bool fits() const {
    return o_.budget || learns(*find_attention_kind(o_.attention)) || o_.window > 0;
  }
  // Training must not make it worse: the one of lower held-out loss.
  bool training_helped() const {
    return facts_.tuned["loss"].get<double>() <= facts_.converted["loss"].get<double>();
  }
  fs::path result() const { return training_helped() ? tuned() / "final" : converted(); }

  // A stage that is a command. `made` is a folder that it makes; a call that was killed before it
  // could note that the folder is whole may have left one.
  OrderedJson stage(const std::string& name, const Words& words, const fs::path& made = {}) {
    facts_.commands.push_back(shell_line(words));
    return stages_.run(name, [&] {
      if (!made.empty()) {
        fs::remove_all(made);
      }
      return run_subcommand(words, context_);
    });
  }

  // What it leaves when it is stopped is gone on with, not removed.
  void sample() {
    const std::int64_t tokens =
        o_.own_tokens.value_or(std::min(kMostOwnTokens, steps() * o_.batch * o_.context));
    log_info("no --data: works with ", count_text(tokens, "token"), " of the model's own text, ",
             own_text().string());
    stage("sample", sample_words({o_.model, tokens, o_.context}, own_text()));
  }

  OrderedJson hold_out() {
    const Tokenizer tokenizer =
        load_tokenizer(o_.model, read_model_config(o_.model / "config.json"));
    const auto tokens = std::make_shared<PackedTokens>(
        open_data(texts(), o_.cache.value_or(fs::path()), tokenizer, context_));
    const CorpusSplit split =
        split_corpus(tokens, {.context = o_.context, .held_out = kHeldOutShare});
    const std::int64_t written =
        write_held_out(split, token_encoder(tokenizer), o_.eval_tokens, held_out());
    return {{"tokens", written}};
  }

  void add_cache(Words& words) const {
    if (o_.cache) {
      add_words(words, "--cache", o_.cache->string());
    }
  }

  Words analyze_words() const {
    Words words = {"analyze", o_.model.string()};
    add_files(words, "--data", texts());
    add_words(words, "--context", std::max<std::int64_t>(2, o_.context));
    add_words(words, "--tokens", o_.analysis_tokens, "--out", analysis().string());
    add_cache(words);
    return words;
  }

  void add_attention(Words& words) const {
    add_words(words, "--attention", o_.attention, "--window", o_.window);
    if (o_.features) {
      add_words(words, "--features", *o_.features);
    }
    if (o_.rank_share) {
      add_words(words, "--rank-share", *o_.rank_share);
    }
    if (o_.centre && o_.attention != "hedgehog") {
      add_words(words, "--centre");
    }
  }

  OrderedJson convert() {
    Words words = {"convert", o_.model.string()};
    if (o_.budget) {
      add_words(words, "--analysis", analysis().string(), "--auto", "--budget", *o_.budget);
    } else {
      add_attention(words);
    }
    if (!o_.budget || o_.fit) {
      add_files(words, "--data", texts());
      add_words(words, "--context", o_.context);
      add_cache(words);
    }
    if (!o_.fit) {
      add_words(words, "--no-fit");
    } else if (fits()) {
      add_words(words, "--fit-steps", o_.fit_steps);
    }
    if (o_.keep_worst > 0) {
      add_words(words, "--keep-worst", o_.keep_worst);
    }
    for (const std::string& layers : o_.keep_exact) {
      add_words(words, "--keep-exact", layers);
    }
    add_words(words, "--out", converted().string());
    return stage("convert", words, converted());
  }

  Words training_words(const fs::path& from, const fs::path& to, std::int64_t steps) const {
    Words words = {"finetune", from.string()};
    add_files(words, "--data", texts());
    add_words(words, "--steps", steps, "--batch", o_.batch, "--context", o_.context, "--lr", o_.lr);
    add_words(words, "--warmup", steps / 20, "--factor-lr-scale", o_.factor_lr_scale);
    add_words(words, "--checkpoint-every", o_.checkpoint_every, "--keep", 1, "--out", to.string());
    add_words(words, "--held-out", o_.eval_data.empty() ? kHeldOutShare : 0.0, "--resume");
    add_cache(words);
    return words;
  }

  Words transfer_words() const {
    Words words = training_words(converted(), transferred(), o_.transfer_steps);
    add_words(words, "--train", "attention", "--teacher", o_.model.string());
    add_words(words, "--distill-attention", 1, "--distill-logits", 0, "--loss-weight", 0);
    return words;
  }

  Words finetune_words() const {
    const fs::path from = o_.transfer_steps > 0 ? transferred() / "final" : converted();
    Words words = training_words(from, tuned(), steps());
    add_words(words, "--train", o_.train);
    return words;
  }

  Words eval_words(const fs::path& model, const Words& more) const {
    Words words = {"eval", model.string()};
    add_files(words, "--data",
              o_.eval_data.empty() ? std::vector<fs::path>{held_out()} : o_.eval_data);
    add_words(words, "--context", o_.context, "--max-tokens", o_.eval_tokens);
    add_cache(words);
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  void report() {
    report::Results results = linearize_results(facts_);
    results.command = context_.command_line();
    results.settings = context_.settings();
    const fs::path file = o_.out / "results.json", page = o_.out / "report.html";
    write_json(file, report::results_json(results));
    report::write_report(file, page);
    if (context_.common.json) {
      OrderedJson object;
      object["model"] = result().string();
      object["report"] = page.string();
      object["tokens"] = steps() * o_.batch * o_.context;
      object["base"] = facts_.base, object["converted"] = facts_.converted;
      object["finetuned"] = facts_.tuned;
      context_.print_json(object);
      return;
    }
    print(page);
  }

  void print(const fs::path& page) const {
    const auto line = [&](const char* name, const OrderedJson& result) {
      context_.out << std::left << std::setw(12) << name << std::fixed << std::setprecision(4)
                   << " loss " << result["loss"].get<double>() << ", accuracy "
                   << result["accuracy"].get<double>() << '\n';
    };
    line("original", facts_.base), line("converted", facts_.converted);
    line("finetuned", facts_.tuned);
    if (!training_helped()) {
      context_.out
          << "finetuning made it worse on held-out text: the result is the converted model\n";
    }
    context_.out << "model: " << result().string() << "\nreport: " << page.string() << '\n';
  }

  const LinearizeOptions& o_;
  Context& context_;
  const std::map<std::string, std::uint64_t> inputs_;  // read before a folder is made
  Stages stages_;
  LinearizeFacts facts_;
};

void check_options(const LinearizeOptions& options, const Context& context) {
  if (options.budget && !options.analyze) {
    throw UsageError("--budget is met by the analysis; it has no meaning with --no-analyze");
  }
  if (options.rank_share) {
    check_rank_share(*options.rank_share, options.attention);
  }
  for (const char* name : {"keep-worst", "fit-steps"}) {
    if (!options.fit && was_given(context, name)) {
      throw UsageError(concat("--", name, " is about the fit, and nothing is fitted here"));
    }
  }
  for (const char* name :
       {"attention", "features", "rank-share", "window", "centre", "keep-worst"}) {
    if (options.budget && was_given(context, name)) {
      throw UsageError(
          concat("--", name, " has no meaning with --budget, which chooses for each layer"));
    }
  }
  check_own_tokens(options.own_tokens, !options.data.empty());
  if (options.tokens && was_given(context, "steps")) {
    throw UsageError("--steps and --tokens exclude each other: both say how long to finetune");
  }
}

// What convert would refuse, before hours are spent on the way to it.
void check_conversion(const LinearizeOptions& options) {
  const ModelConfig config = read_model_config(options.model / "config.json");
  ConvertOptions convert;
  convert.attention = options.attention, convert.features = options.features;
  convert.window = options.window, convert.keep_exact = options.keep_exact;
  convert.keep_worst = options.keep_worst;
  check_keep_worst(convert, config);
  for (const std::int64_t layer : chosen_layers(convert, config)) {
    spec_of(convert, config, layer);
  }
}

void linearize(const LinearizeOptions& options, Context& context) {
  check_options(options, context);
  check_outside(options.out, options.model);
  check_conversion(options);
  check_reads_text(options.model);
  Linearization(options, context).run();
}

}  // namespace

Command linearize_command() {
  return make_command<LinearizeOptions>(
      {.name = "linearize",
       .summary = "Analyze, convert, finetune and measure a model in one go",
       .example =
           "darkformer linearize gemma-2b --data text.jsonl --steps 1000 --out gemma-2b-linear",
       .details =
           "The whole way: (without --data) let the model write text, hold some of it out, "
           "analyze, convert, (with --transfer-steps) teach each layer's attention by the "
           "original's, finetune, measure against the original, and write report.html with before "
           "and after, what each component of the attention does, and the curves. Stopped by "
           "Ctrl-C, a crash or a power cut, the same command goes on where it was. The result is "
           "DIR/finetune/final, or DIR/converted where training made it worse on held-out text; "
           "DIR/report.html also lists the single commands.",
       .config = true},
      linearize);
}

}  // namespace darkformer
