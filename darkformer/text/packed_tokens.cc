// Positions of the stream to documents and back.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/packed_tokens.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "darkformer/base/error.h"

namespace darkformer {
namespace {

// What stands before the tokens of a document: BOS, where the tokenizer has one.
std::int64_t lead(const TokenShard& shard) {
  return shard.info().bos >= 0 ? 1 : 0;
}

// BOS and EOS.
std::int64_t marks(const TokenShard& shard) {
  return lead(shard) + 1;
}

std::int64_t packed_begin(const TokenShard& shard, std::int64_t d) {
  return shard.document_begin(d) + marks(shard) * d;
}

std::int64_t packed_size(const TokenShard& shard) {
  return shard.info().tokens + marks(shard) * shard.info().documents;
}

}  // namespace

PackedTokens::PackedTokens(Shards shards) : shards_(std::move(shards)), begins_{0} {
  require(!shards_.empty(), "no token shard given");
  for (const auto& shard : shards_) {
    shard->require_tokenizer(shards_.front()->info().tokenizer);
    begins_.push_back(begins_.back() + packed_size(*shard));
    documents_ += shard->info().documents;
  }
}

std::int64_t PackedTokens::document_begin(std::size_t shard, std::int64_t d) const {
  return begins_[shard] + packed_begin(*shards_[shard], d);
}

std::uint64_t PackedTokens::fingerprint() const {
  KeyBuilder key;
  for (const auto& shard : shards_) {
    key.add(shard->info().checksum).add(static_cast<std::uint64_t>(shard->info().tokens));
  }
  return key.value();
}

void PackedTokens::copy(std::int64_t begin,
                        std::int64_t count,
                        std::int64_t* ids,
                        std::uint8_t* starts) const {
  assert(begin >= 0 && count >= 0 && begin + count <= size());
  std::fill_n(starts, count, std::uint8_t{0});
  while (count > 0) {
    const std::size_t s = find_shard(begin);
    const TokenShard& shard = *shards_[s];
    const std::int64_t d = find_document(shard, begin - begins_[s]);
    const std::int64_t length = shard.document_end(d) - shard.document_begin(d);
    const std::int64_t place = begin - document_begin(s, d) - lead(shard);  // -1: BOS, length: EOS
    std::int64_t done = 1;
    *starts = place == -lead(shard) ? 1 : 0;
    if (place < 0) {
      *ids = shard.info().bos;
    } else if (place == length) {
      *ids = shard.info().eos;
    } else {
      done = std::min(count, length - place);
      shard.copy(shard.document_begin(d) + place, done, ids);
    }
    begin += done;
    count -= done;
    ids += done;
    starts += done;
  }
}

// The shard with this position; shards without a token have none.
std::size_t PackedTokens::find_shard(std::int64_t position) const {
  const auto after = std::upper_bound(begins_.begin(), begins_.end(), position);
  return static_cast<std::size_t>(after - begins_.begin()) - 1;
}

// The last document that begins at or before the position.
std::int64_t PackedTokens::find_document(const TokenShard& shard, std::int64_t local) const {
  std::int64_t low = 0;
  std::int64_t high = shard.info().documents;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (packed_begin(shard, middle) <= local ? low : high) = middle;
  }
  return low;
}

void TokenStretches::add(std::int64_t begin, std::int64_t end) {
  assert(begin <= end && end <= tokens_->size());
  if (begin == end) {
    return;
  }
  if (!stretches_.empty()) {
    const std::int64_t last_end = stretches_.back().source + size_ - stretches_.back().begin;
    assert(last_end <= begin);
    if (last_end == begin) {
      size_ += end - begin;  // the last stretch goes on
      return;
    }
  }
  stretches_.push_back({size_, begin});
  size_ += end - begin;
}

void TokenStretches::copy(std::int64_t begin,
                          std::int64_t count,
                          std::int64_t* ids,
                          std::uint8_t* starts) const {
  assert(begin >= 0 && count >= 0 && begin + count <= size_);
  auto next = std::upper_bound(
      stretches_.begin(), stretches_.end(), begin,
      [](std::int64_t position, const Stretch& stretch) { return position < stretch.begin; });
  while (count > 0) {
    const Stretch& stretch = *std::prev(next);
    const std::int64_t end = next == stretches_.end() ? size_ : next->begin;
    const std::int64_t done = std::min(count, end - begin);
    tokens_->copy(stretch.source + begin - stretch.begin, done, ids, starts);
    begin += done;
    count -= done;
    ids += done;
    starts += done;
    ++next;
  }
}

}  // namespace darkformer
