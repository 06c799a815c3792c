// Several shards as one long stream of tokens with document boundaries, and parts of that stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "darkformer/text/token_shard.h"

namespace darkformer {

using Shards = std::vector<std::shared_ptr<const TokenShard>>;

// All documents of the shards, in order, each as  BOS ids EOS , without BOS where the
// tokenizer has none. Nothing is copied: tokens are looked up in the mapped files, O(log documents)
// a call. Thread-safe.
class PackedTokens {
 public:
  // At least one shard; all made with the same tokenizer, else Error.
  explicit PackedTokens(Shards shards);

  std::int64_t size() const { return begins_.back(); }
  std::int64_t documents() const { return documents_; }
  const Shards& shards() const { return shards_; }
  // Where a document of a shard starts (at its BOS, if any) in the stream.
  std::int64_t document_begin(std::size_t shard, std::int64_t d) const;
  // Of the ids, the documents and their order.
  std::uint64_t fingerprint() const;

  // ids[i] <- token begin + i of the stream, starts[i] <- 1 where it is the first of a document,
  // else 0; i in [0, count).
  void copy(std::int64_t begin, std::int64_t count, std::int64_t* ids, std::uint8_t* starts) const;

 private:
  std::size_t find_shard(std::int64_t position) const;
  std::int64_t find_document(const TokenShard& shard, std::int64_t local) const;

  Shards shards_;
  std::vector<std::int64_t> begins_;  // of each shard in the stream, and the end
  std::int64_t documents_ = 0;
};

// Some stretches of a stream, joined: what is left when others are held out. Memory: 16 bytes a
// stretch. Thread-safe.
class TokenStretches {
 public:
  explicit TokenStretches(std::shared_ptr<const PackedTokens> tokens)
      : tokens_(std::move(tokens)) {}

  // Adds [begin, end) of the stream, behind all that was added before and not before them in the
  // stream.
  void add(std::int64_t begin, std::int64_t end);

  std::int64_t size() const { return size_; }
  std::size_t stretches() const { return stretches_.size(); }
  void copy(std::int64_t begin, std::int64_t count, std::int64_t* ids, std::uint8_t* starts) const;

 private:
  struct Stretch {
    std::int64_t begin;   // here
    std::int64_t source;  // in the stream
  };

  std::shared_ptr<const PackedTokens> tokens_;
  std::vector<Stretch> stretches_;
  std::int64_t size_ = 0;
};

}  // namespace darkformer
