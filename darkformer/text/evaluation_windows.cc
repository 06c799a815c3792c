// Windows over the bare ids of the shards.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/evaluation_windows.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "darkformer/base/error.h"

namespace darkformer {

EvaluationWindows::EvaluationWindows(Shards shards, std::int64_t context)
    : shards_(std::move(shards)), begins_{0}, context_(context) {
  require(context >= 1, "the context must be at least 1 token, not ", context);
  require(!shards_.empty(), "no text to evaluate on");
  for (const auto& shard : shards_) {
    shard->require_tokenizer(shards_.front()->info().tokenizer);
    begins_.push_back(begins_.back() + shard->info().tokens);
  }
  require(tokens() > 0, "the text to evaluate on has no token");
}

TokenBatch EvaluationWindows::read_batch(std::int64_t first, std::int64_t rows) const {
  assert(first >= 0 && first <= size() && rows > 0);
  const std::int64_t whole = tokens() / context_;
  const bool last_alone = first == whole;
  const std::int64_t length = last_alone ? tokens() - whole * context_ : context_;
  const std::int64_t count = last_alone ? size() - whole : std::min(rows, whole - first);
  const ShardInfo& info = shards_.front()->info();
  TokenBatch batch(std::max<std::int64_t>(count, 0), length);
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    batch.row_ids(row)[0] = info.bos >= 0 ? info.bos : info.eos;  // what a text begins behind
    copy((first + row) * context_, length, batch.row_ids(row) + 1);
  }
  std::fill(batch.counted.begin(), batch.counted.end(), std::uint8_t{1});
  return batch;
}

void EvaluationWindows::copy(std::int64_t begin, std::int64_t count, std::int64_t* out) const {
  while (count > 0) {
    const auto after = std::upper_bound(begins_.begin(), begins_.end(), begin);
    const auto s = static_cast<std::size_t>(after - begins_.begin()) - 1;
    const std::int64_t done = std::min(count, begins_[s + 1] - begin);
    shards_[s]->copy(begin - begins_[s], done, out);
    begin += done;
    count -= done;
    out += done;
  }
}

}  // namespace darkformer
