// Token ids of many documents in one memory-mapped file (docs/file_formats.md has the bytes).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "darkformer/base/atomic_file.h"
#include "darkformer/base/checksum.h"
#include "darkformer/base/mapped_file.h"
#include "darkformer/text/token_encoder.h"

namespace darkformer {

// The ids are those of the text alone: BOS and EOS are kept apart, for whoever packs or cuts.
struct ShardInfo {
  std::uint64_t tokenizer = 0;   // fingerprint
  std::uint64_t source_key = 0;  // of the text and of how it was read; 0: unknown
  std::int32_t bos = 0;          // -1: documents have none
  std::int32_t eos = 0;
  std::int32_t vocabulary = 0;
  std::int64_t tokens = 0;
  std::int64_t documents = 0;     // each with at least one token
  std::int64_t lines = 0;         // of the text
  std::int64_t broken_lines = 0;  // of those, left out
  std::uint64_t checksum = 0;     // of everything behind the header
};

// Writes a shard that appears at commit(), whole. Memory: 16 bytes a document. One thread.
class TokenShardWriter {
 public:
  TokenShardWriter(const std::filesystem::path& path,
                   const TokenEncoder& encoder,
                   std::uint64_t source_key);

  // Adds ids to the current document; an id outside the vocabulary is an Error.
  void append(std::span<const std::int32_t> ids);
  // The next ids begin another document. A document without ids leaves no trace.
  void end_document();
  void set_lines(std::int64_t lines, std::int64_t broken);
  // Ends the document and puts the file in place.
  void commit();

  const ShardInfo& info() const { return info_; }

 private:
  struct Document {
    std::uint64_t end;
    std::uint64_t hash;
  };

  void write(const void* bytes, std::size_t size);
  void flush();

  std::filesystem::path path_;
  AtomicFile file_;
  ShardInfo info_;
  Checksum data_checksum_;
  Checksum document_hash_;
  std::vector<Document> documents_;
  std::vector<std::uint16_t> narrow_;
  std::string buffer_;  // documents are small: many a system call
};

enum class ShardCheck {
  kFast,  // header, size, document table
  kFull,  // all bytes
};

// A shard open for reading. Thread-safe.
class TokenShard {
 public:
  // Anything but a whole, sound shard is an Error that names the file and what is wrong with it.
  explicit TokenShard(const std::filesystem::path& path, ShardCheck check = ShardCheck::kFast);

  const ShardInfo& info() const { return info_; }
  const std::filesystem::path& path() const { return file_.path(); }

  // Error unless the shard was made with this tokenizer.
  void require_tokenizer(std::uint64_t fingerprint) const;

  // Document d has the tokens [document_begin(d), document_end(d)).
  std::int64_t document_begin(std::int64_t d) const { return d == 0 ? 0 : document_end(d - 1); }
  std::int64_t document_end(std::int64_t d) const;
  // XXH64 of the document's ids as 32-bit words: the same text has the same hash in every shard.
  std::uint64_t document_hash(std::int64_t d) const;

  // out[i] <- token begin + i, for i in [0, count)
  void copy(std::int64_t begin, std::int64_t count, std::int64_t* out) const;

 private:
  const std::byte* at(std::uint64_t offset) const { return file_.data() + offset; }
  void read_header();
  void check_documents() const;

  MappedFile file_;
  ShardInfo info_;
  std::uint32_t token_bytes_ = 0;
  std::uint64_t documents_offset_ = 0;
};

// Does the file start as a token shard does?
bool is_token_shard(const std::filesystem::path& path);

}  // namespace darkformer
