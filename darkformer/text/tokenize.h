// Text files to token shards: each text is tokenised once and kept in a cache folder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "darkformer/base/interrupt.h"
#include "darkformer/text/document_reader.h"
#include "darkformer/text/token_encoder.h"
#include "darkformer/text/token_shard.h"

namespace darkformer {

struct TokenizeProgress {
  std::string file;
  std::uint64_t bytes_done = 0;  // of the file as stored
  std::uint64_t bytes_total = 0;
  std::int64_t documents = 0;
  std::int64_t tokens = 0;
};

struct TokenizeOptions {
  ReaderOptions reader;
  ShardCheck check = ShardCheck::kFast;  // of shards that are there already
  // Called from the calling thread, every few megabytes.
  std::function<void(const TokenizeProgress&)> progress;
  // Asked as often: true ends the work with Interrupted and leaves no file behind.
  std::function<bool()> interrupted = &darkformer::interrupted;
};

// Tokenises a text file into a shard, on threads() threads; the shard does not depend on their
// number. Error: unreadable or broken text (DocumentReader), a text without a token, a full disk.
ShardInfo tokenize_file(const std::filesystem::path& text,
                        const std::filesystem::path& shard,
                        const TokenEncoder& encoder,
                        const TokenizeOptions& options = {});

// What the tokens of a text depend on: its bytes, how they are read, the tokenizer. Reads the whole
// file.
std::uint64_t source_key(const std::filesystem::path& text,
                         const TokenEncoder& encoder,
                         const ReaderOptions& options);

// The shard of a text in the cache folder, <source key>.tokens; made if it is not there or not
// sound. While another process makes it, this one waits.
std::filesystem::path tokenize_cached(const std::filesystem::path& text,
                                      const std::filesystem::path& cache,
                                      const TokenEncoder& encoder,
                                      const TokenizeOptions& options = {});

// Opens each file: token shards as they are (Error: another tokenizer), texts through the cache.
std::vector<std::shared_ptr<const TokenShard>> open_shards(
    const std::vector<std::filesystem::path>& files,
    const std::filesystem::path& cache,
    const TokenEncoder& encoder,
    const TokenizeOptions& options = {});

}  // namespace darkformer
