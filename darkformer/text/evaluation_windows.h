// A text as one token stream, cut into windows for measuring a model: every token is a target once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "darkformer/text/packed_tokens.h"
#include "darkformer/text/token_batch.h"

namespace darkformer {

// The ids of all documents of all shards, one behind the other and without marks between them.
// Window w is BOS and the ids [wT, wT + T): the model reads BOS and the first T-1, the targets are
// all T. The last window may be shorter. Thread-safe.
class EvaluationWindows {
 public:
  // Error: context < 1, no shard, no token, different tokenizers.
  EvaluationWindows(Shards shards, std::int64_t context);

  std::int64_t size() const { return (tokens() + context_ - 1) / context_; }
  std::int64_t tokens() const { return begins_.back(); }      // targets in all windows
  std::int64_t context() const { return context_; }           // T
  std::int64_t whole() const { return tokens() / context_; }  // windows that are not cut short

  // Windows first, first + 1, ...: at most `rows`. All rows of a batch are equally long: a short
  // last window comes alone, with a context of its own length. All targets count. No rows: first is
  // size().
  TokenBatch read_batch(std::int64_t first, std::int64_t rows) const;

 private:
  void copy(std::int64_t begin, std::int64_t count, std::int64_t* out) const;

  Shards shards_;
  std::vector<std::int64_t> begins_;  // of each shard in the stream, and the end
  std::int64_t context_;
};

}  // namespace darkformer
