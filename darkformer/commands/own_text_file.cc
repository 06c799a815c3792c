// A file in the cache, made by the command sample.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/own_text_file.h"

#include <algorithm>

#include "darkformer/base/checksum.h"
#include "darkformer/base/content_key.h"
#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/base/interrupt.h"
#include "darkformer/base/log.h"
#include "darkformer/checkpoint/model_folder.h"
#include "darkformer/commands/data_files.h"
#include "darkformer/commands/model_options.h"
#include "darkformer/commands/subcommand.h"
#include "darkformer/model/decoder.h"

namespace darkformer {

namespace fs = std::filesystem;

namespace {

std::int64_t longest_sequence(const OwnTextRequest& request) {
  const ModelConfig config = read_model_config(request.model / "config.json");
  return std::max<std::int64_t>(2, std::min(request.context, config.max_positions));
}

}  // namespace

void check_own_tokens(std::optional<std::int64_t> own_tokens, bool data) {
  if (own_tokens && data) {
    throw UsageError("--own-tokens has no meaning where other text is given");
  }
}

std::vector<std::string> sample_words(const OwnTextRequest& request, const fs::path& out) {
  return {"sample",    request.model.string(),
          "--tokens",  std::to_string(request.tokens),
          "--context", std::to_string(longest_sequence(request)),
          "--out",     out.string(),
          "--resume"};
}

fs::path partial_sample(const fs::path& out) {
  return fs::path(out) += ".partial";
}

void check_reads_text(const fs::path& model) {
  load_tokenizer(model, load_model(model)->config());
}

fs::path own_text_file(const OwnTextRequest& request, const Context& context) {
  check_reads_text(request.model);
  // All that decides the text is in the name.
  const std::string name =
      concat("own-text-", to_hex(content_key({request.model})), "-", request.tokens, "-",
             longest_sequence(request), "-", context.common.seed, ".jsonl");
  const fs::path file = (request.cache.empty() ? default_cache() : request.cache) / name;
  const bool is_kept = fs::exists(file);
  log_info("no --data: reads ", count_text(request.tokens, "token"), " of the model's own text, ",
           is_kept ? "sampled before: " : "sampled now: ", file.string());
  if (!is_kept) {
    std::vector<std::string> words = sample_words(request, file);
    if (!fs::exists(partial_sample(file))) {
      words.pop_back();  // there is nothing to resume, and nobody need be told
    }
    try {
      run_subcommand(words, context);
    } catch (const Interrupted&) {
      throw Interrupted(
          "stopped while the model wrote its own text; nothing else was written, and the same "
          "command goes on");
    }
  }
  return file;
}

}  // namespace darkformer
