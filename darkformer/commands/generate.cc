// darkformer generate: continues a text, streaming.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/count_text.h"
#include "darkformer/evaluation/generation.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ostream>

#include "darkformer/base/log.h"
#include "darkformer/base/mapped_file.h"
#include "darkformer/base/system_info.h"
#include "darkformer/checkpoint/model_folder.h"
#include "darkformer/checkpoint/state_file.h"
#include "darkformer/commands/command.h"
#include "darkformer/commands/model_options.h"
#include "darkformer/commands/out_place.h"
#include "darkformer/model/decoder.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;

struct GenerateOptions {
  fs::path model;
  std::optional<std::string> prompt;
  std::optional<fs::path> file;
  std::vector<std::int64_t> ids;
  std::int64_t max_tokens = 128;
  double temp = 0;
  std::int64_t top_k = 0;
  double top_p = 1;
  std::vector<std::string> stop;
  bool ignore_eos = false;
  bool chat = false;
  bool stats = false;
  std::optional<fs::path> save_state;
  std::optional<fs::path> load_state;
  std::string embed_scale = "float32";

  void visit(auto&& field) {
    field("model", model, "model folder", {.positional = true, .required = true});
    field("prompt", prompt, "text to go on from", {.empty_means = "standard input"});
    field("file", file, "file with the text to go on from; - is standard input");
    field("ids", ids, "token ids to go on from, taken as they are", {.minimum = 0});
    field("max-tokens", max_tokens, "stop after so many tokens", {.letter = 'n', .minimum = 0});
    field("temp", temp, "temperature; 0 takes the likeliest token", {.minimum = 0});
    field("top-k", top_k, "sample from the k likeliest tokens; 0: from all", {.minimum = 0});
    field("top-p", top_p, "sample from the fewest tokens with this share of the probability",
          {.minimum = 0, .maximum = 1});
    field("stop", stop, "end before this text; may be repeated", {.value_name = "TEXT"});
    field("ignore-eos", ignore_eos, "go on where the model would end the text");
    field("chat", chat, "the prompt is a user's turn in the model's chat format");
    field("stats", stats, "report speeds and the size of the state");
    field("save-state", save_state, "keep the prompt, as read, in this file", {.value_name = "F"});
    field("load-state", load_state, "go on from a kept prompt; a prompt given as well follows it",
          {.value_name = "F"});
    field("embed-scale", embed_scale, kEmbedScaleHelp, kEmbedScaleTraits);
  }
};

// Waits in poll, which a signal ends where read would go on; looks twice a second for one that
// came just before.
std::string read_standard_input(const Context& context) {
  std::string text;
  std::vector<char> buffer(1 << 16);
  for (;;) {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    const bool ready = poll(&input, 1, 500) == 1;
    context.stop_if_interrupted("stopped before the prompt was read");
    if (!ready) {
      continue;
    }
    const ssize_t count = read(STDIN_FILENO, buffer.data(), buffer.size());
    require(count >= 0, "standard input: cannot be read: ", std::strerror(errno));
    if (count == 0) {
      return text;
    }
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

// The prompt's text, or nothing when there is none: ids instead, or only a loaded state.
std::optional<std::string> prompt_text(const GenerateOptions& options, const Context& context) {
  const int given =
      (options.prompt ? 1 : 0) + (options.file ? 1 : 0) + (options.ids.empty() ? 0 : 1);
  if (given > 1) {
    throw UsageError("give one of --prompt, --file and --ids");
  }
  if (options.prompt) {
    return options.prompt;
  }
  if (options.file && *options.file != "-") {
    return std::string(MappedFile(*options.file).text());
  }
  const bool nothing = !options.ids.empty() || (options.load_state && !options.file);
  return nothing ? std::nullopt : std::optional(read_standard_input(context));
}

// A model at work on one command line.
class Session {
 public:
  Session(const GenerateOptions& options, Context& context)
      : options_(options),
        context_(context),
        model_(load_model(options.model, {.embed_scale = embed_scale_of(options.embed_scale)})),
        tokenizer_(find_tokenizer(options.model, model_->config())) {}

  void run() {
    if (options_.save_state) {
      check_out_file(*options_.save_state, is_state_file, "state of a model", "--save-state");
    }
    if (options_.load_state) {
      state_ = load_state(*options_.load_state, *model_);
    }
    read_prompt(prompt_ids());
    if (options_.save_state) {
      save_state(*options_.save_state, state_, *model_);
      log_info(options_.save_state->string(), ": holds ", count_text(state_.position, "token"),
               ", read");
    }
    write();
  }

 private:
  using Clock = std::chrono::steady_clock;

  static double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  const Tokenizer& tokenizer() const { return prompt_tokenizer(tokenizer_, options_.model); }

  std::vector<std::int64_t> prompt_ids() const {
    const std::optional<std::string> text = prompt_text(options_, context_);
    if (!text) {
      return options_.ids;
    }
    std::vector<std::int64_t> ids;
    if (options_.chat) {
      const ChatTurn turn{"user", *text};
      const auto encoded = tokenizer().encode_chat({&turn, 1});
      ids.assign(encoded.begin(), encoded.end());
    } else {
      ids = encode_with_bos(tokenizer(), *text);
    }
    if (options_.load_state && !ids.empty() && ids.front() == tokenizer().bos()) {
      ids.erase(ids.begin());  // BOS stands at the start of what was read before
    }
    return ids;
  }

  void read_prompt(const std::vector<std::int64_t>& ids) {
    const auto start = Clock::now();
    if (!ids.empty()) {
      const at::Tensor row = token_row(ids, model_->config());
      warn_of_length(state_.position + row.size(1) + options_.max_tokens);
      read_shown(*model_, row, state_, context_);
    }
    prompt_tokens_ = static_cast<std::int64_t>(ids.size());
    prompt_seconds_ = seconds_since(start);
  }

  void warn_of_length(std::int64_t tokens) const {
    if (tokens > model_->config().max_positions) {
      log_warning("up to ", tokens, " tokens: more than the ",
                  count_text(model_->config().max_positions, "position"),
                  " this model was made for");
    }
  }

  GenerationOptions generation_options() const {
    GenerationOptions options;
    options.max_tokens = options_.max_tokens;
    options.sampler = {options_.temp, options_.top_k, options_.top_p,
                       static_cast<std::uint64_t>(context_.common.seed)};
    options.end_ids = options_.ignore_eos ? std::vector<std::int64_t>{} : end_ids();
    options.stop = options_.stop;
    options.is_answer = options_.chat;
    return options;
  }

  std::vector<std::int64_t> end_ids() const {
    std::vector<std::int64_t> ids = model_->config().eos_ids;
    if (tokenizer_) {
      ids.push_back(tokenizer_->eos());
      if (options_.chat) {
        ids.push_back(tokenizer_->end_of_turn());
      }
    }
    return ids;
  }

  // Streams text, or ids where there is no tokenizer.
  void show(std::int64_t id, const std::string& text) {
    if (context_.common.json) {
      return;
    }
    if (tokenizer_) {
      context_.out << text << std::flush;
    } else if (id >= 0) {
      context_.out << id << " " << std::flush;
    }
    require(context_.out.good(), "standard output: cannot be written (closed or full)");
  }

  void write() {
    const auto start = Clock::now();
    const Generation result =
        generate(*model_, state_, tokenizer_, generation_options(),
                 [&](std::int64_t id, const std::string& text) { show(id, text); });
    const double seconds = seconds_since(start);
    if (context_.common.json) {
      context_.print_json(as_json(result, seconds));
    } else if (options_.max_tokens > 0) {
      context_.out << "\n";
    }
    if (options_.stats) {
      report(result, seconds);
    }
    context_.stop_if_interrupted(concat("stopped after ", count_text(result.ids.size(), "token")));
  }

  static double rate(std::int64_t tokens, double seconds) {
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
  }

  void report(const Generation& result, double seconds) const {
    log_info("prompt  ", count_text(prompt_tokens_, "token"), ", ",
             quantity_text(rate(prompt_tokens_, prompt_seconds_)), " a second");
    log_info("decode  ", count_text(result.ids.size(), "token"), ", ",
             quantity_text(rate(std::ssize(result.ids), seconds)), " a second");
    log_info("state   ", bytes_text(model_->state_bytes(state_.position)), " after ",
             count_text(state_.position, "token"));
    log_info("memory  ", bytes_text(memory_info().peak), " at most");
  }

  OrderedJson as_json(const Generation& result, double seconds) const {
    return {{"text", result.text},
            {"ids", result.ids},
            {"end", end_reason_name(result.end)},
            {"prompt_tokens", prompt_tokens_},
            {"prompt_tokens_per_second", rate(prompt_tokens_, prompt_seconds_)},
            {"decode_tokens_per_second", rate(std::ssize(result.ids), seconds)},
            {"state_bytes", model_->state_bytes(state_.position)},
            {"state_tokens", state_.position}};
  }

  const GenerateOptions& options_;
  Context& context_;
  std::shared_ptr<Decoder> model_;
  std::optional<Tokenizer> tokenizer_;
  DecoderState state_;
  std::int64_t prompt_tokens_ = 0;
  double prompt_seconds_ = 0;
};

void check_options(const GenerateOptions& options) {
  if (options.top_p <= 0) {
    throw UsageError("--top-p must be above 0");
  }
  for (const std::string& text : options.stop) {
    if (text.empty()) {
      throw UsageError("--stop: an empty text would stop at once");
    }
  }
}

void generate_text(const GenerateOptions& options, Context& context) {
  check_options(options);
  Session(options, context).run();
}

}  // namespace

Command generate_command() {
  return make_command<GenerateOptions>(
      {.name = "generate",
       .summary = "Continue a text, streaming",
       .example = "darkformer generate gemma-2b-it --chat --prompt 'Why is the sky blue?' --stats\n"
                  "darkformer generate gemma-2b --file book.txt -n 0 --save-state book.state\n"
                  "darkformer generate gemma-2b --load-state book.state --temp 0.8 --top-p 0.95",
       .details =
           "The prompt comes from --prompt, --file or standard input. --save-state keeps the "
           "prompt as the model has read it; --load-state goes on from there without reading "
           "it again. A folder without a tokenizer takes --ids and prints ids."},
      generate_text);
}

}  // namespace darkformer
