// Tokenising in batches: read in order, encode in parallel, append in order.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/tokenize.h"

#include <unistd.h>

#include <bit>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "darkformer/base/atomic_file.h"
#include "darkformer/base/content_key.h"
#include "darkformer/base/error.h"
#include "darkformer/base/log.h"
#include "darkformer/base/threads.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;

// Enough for every thread, little enough to show progress and to stop soon.
constexpr std::size_t kBatchBytes = std::size_t{4} << 20;

struct TextPiece {
  std::string text;
  bool begins_document = false;
  bool ends_document = false;
  std::vector<std::int32_t> ids;
};

// The next pieces of the file, empty at its end.
std::vector<TextPiece> read_batch(DocumentReader& reader) {
  std::vector<TextPiece> batch;
  std::size_t bytes = 0;
  DocumentPiece piece;
  while (bytes < kBatchBytes && reader.next(piece)) {
    bytes += piece.text.size();
    batch.push_back({std::string(piece.text), piece.begins_document, piece.ends_document, {}});
  }
  return batch;
}

void write_batch(std::vector<TextPiece>& batch,
                 const TokenEncoder& encoder,
                 TokenShardWriter& writer) {
  parallel_for(batch.size(), [&](std::size_t i) {
    TextPiece& piece = batch[i];
    const bool goes_on = !piece.begins_document && encoder.encode_more;
    piece.ids = goes_on ? encoder.encode_more(piece.text) : encoder.encode(piece.text);
  });
  for (const TextPiece& piece : batch) {
    writer.append(piece.ids);
    if (piece.ends_document) {
      writer.end_document();
    }
  }
}

ShardInfo write_shard(const fs::path& text,
                      const fs::path& shard,
                      const TokenEncoder& encoder,
                      std::uint64_t key,
                      const TokenizeOptions& options) {
  const auto reader = open_documents(text, options.reader);
  TokenShardWriter writer(shard, encoder, key);
  for (auto batch = read_batch(*reader); !batch.empty(); batch = read_batch(*reader)) {
    write_batch(batch, encoder, writer);
    if (options.progress) {
      options.progress({text.string(), reader->stored_bytes_used(), fs::file_size(text),
                        writer.info().documents, writer.info().tokens});
    }
    if (options.interrupted && options.interrupted()) {
      throw Interrupted(text.string() + ": tokenising was stopped; the next run starts it again");
    }
  }
  require(writer.info().tokens > 0, text.string(), ": there is no text in it");
  writer.set_lines(reader->report().lines, reader->report().broken_lines);
  writer.commit();
  return writer.info();
}

void require_writable(const fs::path& cache) {
  std::error_code code;
  fs::create_directories(cache, code);
  if (!code && access(cache.c_str(), W_OK) != 0) {
    code.assign(errno, std::generic_category());
  }
  require(!code, cache.string(), ": tokenised texts cannot be kept here: ", code.message(),
          "; --cache or XDG_CACHE_HOME names another folder");
}

// Is there a sound shard of this key already?
bool is_cached(const fs::path& shard, std::uint64_t key, ShardCheck check) {
  if (!is_token_shard(shard)) {
    return false;
  }
  try {
    return TokenShard(shard, check).info().source_key == key;
  } catch (const Error&) {
    return false;  // it will be replaced
  }
}

// Asks the interrupt, and so ends soon when the user wants it.
void wait_a_moment(const fs::path& text, const TokenizeOptions& options) {
  if (options.interrupted && options.interrupted()) {
    throw Interrupted(text.string() + ": another process tokenises it; stopped waiting");
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

// Runs that begin together on one text: the first to come writes the shard, the others wait for it.
// If it fails or dies, the next takes over.
void write_or_await(const fs::path& text,
                    const fs::path& shard,
                    const TokenEncoder& encoder,
                    std::uint64_t key,
                    const TokenizeOptions& options) {
  for (bool told = false; !is_cached(shard, key, options.check); told = true) {
    try {
      write_shard(text, shard, encoder, key, options);
      return;
    } catch (const BusyError&) {
      if (!told) {
        log_info(text.string(), ": another process tokenises it, waiting");
      }
      wait_a_moment(text, options);
    }
  }
}

}  // namespace

ShardInfo tokenize_file(const fs::path& text,
                        const fs::path& shard,
                        const TokenEncoder& encoder,
                        const TokenizeOptions& options) {
  return write_shard(text, shard, encoder, source_key(text, encoder, options.reader), options);
}

std::uint64_t source_key(const fs::path& text,
                         const TokenEncoder& encoder,
                         const ReaderOptions& options) {
  const std::uint64_t bytes = file_checksum(text);
  const TextFormat format = text_format(text);
  const bool plain = format == TextFormat::kPlainText;
  return KeyBuilder()
      .add("darkformer tokens 1")
      .add(bytes)
      .add(fs::file_size(text))
      .add(encoder.fingerprint)
      .add(static_cast<std::uint64_t>(format))
      .add(plain ? options.separator : options.text_field)
      .add(plain ? options.piece_bytes : 0)
      .add(std::bit_cast<std::uint64_t>(options.broken.fraction))
      .add(static_cast<std::uint64_t>(options.broken.at_least))
      .value();
}

fs::path tokenize_cached(const fs::path& text,
                         const fs::path& cache,
                         const TokenEncoder& encoder,
                         const TokenizeOptions& options) {
  const std::uint64_t key = source_key(text, encoder, options.reader);
  fs::path shard = cache / (to_hex(key) + ".tokens");
  if (!is_cached(shard, key, options.check)) {
    require_writable(cache);
    write_or_await(text, shard, encoder, key, options);
  }
  return shard;
}

std::vector<std::shared_ptr<const TokenShard>> open_shards(const std::vector<fs::path>& files,
                                                           const fs::path& cache,
                                                           const TokenEncoder& encoder,
                                                           const TokenizeOptions& options) {
  std::vector<std::shared_ptr<const TokenShard>> shards;
  for (const fs::path& file : files) {
    const bool ready = is_token_shard(file);
    auto shard = ready
                     ? std::make_shared<TokenShard>(file, options.check)
                     : std::make_shared<TokenShard>(tokenize_cached(file, cache, encoder, options));
    shard->require_tokenizer(encoder.fingerprint);
    shards.push_back(std::move(shard));
  }
  return shards;
}

}  // namespace darkformer
