// The cache of tokens and the way into it.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/data_files.h"

#include <cstdlib>
#include <optional>

#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/base/log.h"
#include "darkformer/text/document_reader.h"
#include "darkformer/text/token_shard.h"
#include "darkformer/text/tokenize.h"

namespace darkformer {

namespace fs = std::filesystem;

namespace {

// What the user may not have meant.
void report_reading(const std::vector<fs::path>& files, const Shards& shards) {
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (!is_token_shard(files[i]) && has_unknown_ending(files[i]) &&
        text_format(files[i]) == TextFormat::kPlainText) {
      log_warning(files[i].string(),
                  ": read as plain text, all of it; .txt is plain text, .jsonl has a field text in "
                  "every line");
    }
    const ShardInfo& info = shards[i]->info();
    if (info.broken_lines > 0) {
      log_warning(files[i].string(), ": leaves out ", info.broken_lines, " of ",
                  count_text(info.lines, "line"), ": no UTF-8, no JSON object, or no text in it");
    }
  }
}

}  // namespace

fs::path default_cache() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') {
    return fs::path(cache) / "darkformer";
  }
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') {
    return fs::path(home) / ".cache" / "darkformer";
  }
  return fs::temp_directory_path() / "darkformer-cache";
}

Shards open_data(const std::vector<fs::path>& files,
                 const fs::path& cache,
                 const Tokenizer& tokenizer,
                 const Context& context) {
  std::optional<Progress> progress;
  std::string current;
  std::uint64_t done = 0;
  TokenizeOptions options;
  options.progress = [&](const TokenizeProgress& state) {
    if (!progress || state.file != current) {
      current = state.file;
      done = 0;
      progress.emplace("tokenise " + fs::path(current).filename().string(),
                       static_cast<std::int64_t>(state.bytes_total),
                       Progress::Options{.unit = "bytes"});
    }
    progress->advance(static_cast<std::int64_t>(state.bytes_done - done));
    done = state.bytes_done;
  };
  context.stop_if_interrupted("stopped before any text was read; the same command starts again");
  Shards shards = open_shards(files, cache.empty() ? default_cache() : cache,
                              token_encoder(tokenizer), options);
  report_reading(files, shards);
  return shards;
}

}  // namespace darkformer
