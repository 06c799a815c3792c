// darkformer sample: the model writes its own text, many sequences at once.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <numeric>
#include <ostream>

#include "darkformer/base/atomic_file.h"
#include "darkformer/base/content_key.h"
#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/base/interrupt.h"
#include "darkformer/base/jsonl.h"
#include "darkformer/base/log.h"
#include "darkformer/checkpoint/model_folder.h"
#include "darkformer/commands/file_record.h"
#include "darkformer/commands/model_options.h"
#include "darkformer/commands/own_text_file.h"
#include "darkformer/commands/stages.h"
#include "darkformer/evaluation/own_text.h"
#include "darkformer/model/decoder.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;

struct SampleOptions {
  fs::path model;
  std::int64_t tokens = 0;
  fs::path out;
  std::int64_t batch = 16;
  std::optional<std::int64_t> context;
  double temp = 1;
  std::int64_t top_k = 0;
  double top_p = 1;
  std::optional<std::string> prompt;
  bool resume = false;

  void visit(auto&& field) {
    field("model", model, "model folder", {.positional = true, .required = true});
    field("tokens", tokens, "tokens to write, all sequences together",
          {.required = true, .minimum = 1});
    field("out", out, "file to write, one JSON object with a text a line",
          {.required = true, .value_name = "FILE.jsonl"});
    field("batch", batch, "sequences at once", {.minimum = 1, .maximum = 4096});
    field("context", context, "tokens of the longest sequence, its beginning counted",
          {.minimum = 2, .empty_means = "1024, or the positions of the model where it has fewer"});
    field("temp", temp, "temperature, above 0", {.minimum = 0});
    field("top-k", top_k, "sample from the k likeliest tokens; 0: from all", {.minimum = 0});
    field("top-p", top_p, "sample from the fewest tokens with this share of the probability",
          {.minimum = 0, .maximum = 1});
    field("prompt", prompt, "text that every sequence begins with", {.empty_means = "none"});
    field("resume", resume, "go on with what an interrupted call has left", {.momentary = true});
  }
};

InputKeys sample_inputs(const SampleOptions& o) {
  return {{"MODEL", content_key({o.model})}};
}

// What texts begin with, in models whose tokenizers have no BOS too.
std::int64_t first_id(const Tokenizer& tokenizer, const SampleOptions& o, const ModelConfig& c) {
  if (tokenizer.bos() >= 0) {
    return tokenizer.bos();
  }
  if (c.bos_id >= 0) {
    return c.bos_id;
  }
  require(!c.eos_ids.empty(), o.model.string(),
          ": neither its tokenizer nor config.json names a token that texts begin or end with; add "
          "bos_token_id to config.json");
  return c.eos_ids.front();
}

class Sampling {
 public:
  Sampling(const SampleOptions& options, Context& context)
      : o_(options),
        context_(context),
        model_(load_model(options.model)),
        tokenizer_(load_tokenizer(options.model, model_->config())) {
    if (o_.prompt) {
      const std::vector<std::int32_t> ids = tokenizer_.encode(*o_.prompt);
      prompt_.assign(ids.begin(), ids.end());
    }
    if (1 + std::ssize(prompt_) >= longest()) {
      throw UsageError(concat("--prompt has ", count_text(prompt_.size(), "token"),
                              ", which leaves none of --context ", longest()));
    }
    if (longest() > model_->config().max_positions) {
      log_warning("sequences of up to ", longest(), " tokens: more than the ",
                  count_text(model_->config().max_positions, "position"),
                  " this model was made for");
    }
  }

  void run() {
    const Stages stages(partial_sample(o_.out), context_);
    const InputKeys inputs = sample_inputs(o_);
    stages.keep_inputs(inputs);
    try {
      write();
    } catch (...) {
      if (done_.empty()) {
        std::error_code none;
        fs::remove_all(partial_sample(o_.out), none);
      }
      throw;
    }
    const std::int64_t texts = join(inputs);
    fs::remove_all(partial_sample(o_.out));
    report(texts);
  }

 private:
  using Clock = std::chrono::steady_clock;

  fs::path gathered() const { return partial_sample(o_.out) / "sequences.jsonl"; }
  std::int64_t longest() const {
    return o_.context.value_or(
        std::min(kOwnTextContext, std::max<std::int64_t>(2, model_->config().max_positions)));
  }

  OwnTextOptions own_text_options() const {
    OwnTextOptions options;
    options.tokens = o_.tokens, options.batch = o_.batch, options.context = longest();
    options.sampler = {o_.temp, o_.top_k, o_.top_p,
                       static_cast<std::uint64_t>(context_.common.seed)};
    options.start = {first_id(tokenizer_, o_, model_->config())};
    options.start.insert(options.start.end(), prompt_.begin(), prompt_.end());
    options.end_ids = model_->config().eos_ids;
    if (tokenizer_.eos() >= 0) {
      options.end_ids.push_back(tokenizer_.eos());
    }
    return options;
  }

  void write() {
    if (fs::exists(gathered())) {
      for (const Json& line : read_jsonl(gathered())) {
        require(line.value("tokens", 0) > 0 && line.contains("text"), gathered().string(),
                ": holds what this program did not write; remove the folder to start anew");
        done_.push_back(line["tokens"].get<std::int64_t>());
      }
    }
    const std::int64_t before = std::accumulate(done_.begin(), done_.end(), std::int64_t{0});
    JsonlWriter file(gathered(), JsonlWriter::Mode::kAppend);
    Progress progress("sample", o_.tokens, {.unit = "tokens", .start = before});
    std::int64_t shown = before;
    const auto start = Clock::now();
    write_own_text(
        *model_, own_text_options(), std::vector<std::int64_t>(done_),
        [&](std::int64_t, const std::vector<std::int64_t>& ids) {
          file.write({{"text", text_of(ids)}, {"tokens", ids.size()}});
          done_.push_back(std::ssize(ids));
        },
        [&](std::int64_t tokens) {
          stop_if_interrupted();
          progress.advance(std::max<std::int64_t>(0, tokens - shown));
          shown = std::max(shown, tokens);
        });
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    rate_ = seconds > 0 ? static_cast<double>(o_.tokens - before) / seconds : 0;
  }

  void stop_if_interrupted() const {
    context_.stop_if_interrupted(
        done_.empty()
            ? std::string("stopped before the first sequences were whole; nothing is kept")
            : concat("stopped after ", std::accumulate(done_.begin(), done_.end(), std::int64_t{0}),
                     " of ", count_text(o_.tokens, "token"),
                     "; the same command with --resume goes on"));
  }

  // Ids beyond the tokenizer (padding rows of the embedding) have no text.
  std::string text_of(const std::vector<std::int64_t>& ids) const {
    std::vector<std::int32_t> all;
    for (const auto& part : {prompt_, ids}) {
      for (const std::int64_t id : part) {
        if (id < tokenizer_.size()) {
          all.push_back(static_cast<std::int32_t>(id));
        }
      }
    }
    return tokenizer_.decode(all);
  }

  // The file itself, whole or not at all, without texts of no character, behind its record; how
  // many texts.
  std::int64_t join(const InputKeys& inputs) const {
    AtomicFile file(o_.out);
    std::int64_t texts = 0;
    for (const Json& line : read_jsonl(gathered())) {
      OrderedJson document;
      document["text"] = line.at("text").get<std::string>();
      if (document["text"] != "") {
        file.write(document.dump() + "\n");
        ++texts;
      }
    }
    write_file_record(o_.out, context_, inputs);
    file.commit();
    return texts;
  }

  void report(std::int64_t texts) const {
    if (context_.common.json) {
      context_.print_json({{"out", o_.out.string()},
                           {"texts", texts},
                           {"tokens", o_.tokens},
                           {"tokens_per_second", rate_}});
    } else {
      context_.out << "wrote " << o_.out.string() << ": " << count_text(texts, "text") << ", "
                   << count_text(o_.tokens, "token") << ", " << quantity_text(rate_)
                   << " a second\n";
    }
  }

  const SampleOptions& o_;
  Context& context_;
  std::shared_ptr<Decoder> model_;
  Tokenizer tokenizer_;
  std::vector<std::int64_t> prompt_;
  std::vector<std::int64_t> done_;  // tokens of the sequences that are gathered
  double rate_ = 0;
};

void check_options(const SampleOptions& o) {
  if (o.temp <= 0) {
    throw UsageError("--temp must be above 0: at 0 every sequence would be the same");
  }
  if (o.top_p <= 0) {
    throw UsageError("--top-p must be above 0");
  }
  if (o.out.extension() != ".jsonl") {
    throw UsageError(concat("--out ", o.out.string(),
                            ": wanted a name that ends in .jsonl, by which it is read again"));
  }
}

// Whether an earlier call has written this file already. UsageError: there is something else in the
// way.
bool is_written(const SampleOptions& o, const Context& context) {
  if (fs::is_directory(o.out)) {
    throw UsageError(o.out.string() + ": is a folder, wanted a file name");
  }
  if (fs::exists(o.out) && !o.resume) {
    throw UsageError(o.out.string() + " is there already; remove it or give another --out");
  }
  const fs::path partial = partial_sample(o.out);
  if (fs::exists(o.out)) {
    check_file_record(o.out, context, sample_inputs(o));
    fs::remove_all(partial);  // a kill may have left it behind the finished file
    return true;
  }
  if (fs::exists(partial) && !o.resume) {
    throw UsageError(partial.string() +
                     ": holds what an interrupted call wrote; --resume goes on with it, or remove "
                     "it to start anew");
  }
  if (o.resume && !fs::exists(partial)) {
    log_info(o.out.string(), ": nothing to resume, starts at the first sequence");
  }
  return false;
}

void sample(const SampleOptions& o, Context& context) {
  check_options(o);
  if (!is_written(o, context)) {
    Sampling(o, context).run();
  } else if (context.common.json) {
    context.print_json({{"out", o.out.string()}, {"texts", read_jsonl(o.out).size()}});
  } else {
    context.out << o.out.string() << " is whole already\n";
  }
}

}  // namespace

Command sample_command() {
  return make_command<SampleOptions>(
      {.name = "sample",
       .summary = "Let a model write its own text, many sequences at once",
       .example = "darkformer sample gemma-2b --tokens 1000000 --out own.jsonl\n"
                  "darkformer linearize gemma-2b --data own.jsonl --out gemma-2b-own",
       .details =
           "Every sequence begins with BOS (and --prompt) and ends where the model ends it, or at "
           "--context; together they have exactly --tokens tokens, the last one cut. Sequence i "
           "draws from (--seed, i, position) alone: up to --batch 16 the file does not depend on "
           "--batch and --threads, to the bit; beyond it another batch may round otherwise. The "
           "file appears when it is whole. Until then finished sequences gather in "
           "FILE.jsonl.partial, from where --resume goes on after Ctrl-C, a kill or a power cut, "
           "to the same file. The options stay beside it in FILE.jsonl.run.toml, which --config "
           "reads: --resume leaves a whole file as it is, if it was made with the same ones.",
       .config = true},
      sample);
}

}  // namespace darkformer
