// Positions to windows to batches.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/batch_stream.h"

#include <cassert>

#include "darkformer/base/checksum.h"
#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/text/shared_batch.h"

namespace darkformer {
namespace {

constexpr std::uint32_t kShuffleStream = 0x53485546;  // "SHUF": apart from all other uses of Philox

std::uint64_t order_fingerprint(const CorpusSplit& split, const BatchOptions& options) {
  return KeyBuilder()
      .add(split.fingerprint)
      .add(options.shuffle ? options.seed : 0)
      .add(options.shuffle ? 1 : 0)
      .value();
}

}  // namespace

BatchStream::BatchStream(const CorpusSplit& split, const BatchOptions& options)
    : windows_(split.train),
      options_(options),
      first_row_(options.batch * options.rank / options.ranks),
      last_row_(options.batch * (options.rank + 1) / options.ranks) {
  assert(options.rank >= 0 && options.rank < options.ranks);
  require_shareable(options.batch, options.ranks);
  require(windows_.size() > 0, "there is no window to train on");
  position_.fingerprint = order_fingerprint(split, options);
  start();
}

TokenBatch BatchStream::next() {
  TokenBatch batch = prefetcher_ ? prefetcher_->next() : read(position_);
  position_ = after(position_, options_.batch);
  return batch;
}

void BatchStream::restore(const DataPosition& position) {
  require(position.fingerprint == position_.fingerprint,
          "the data position belongs to another corpus, split, context or seed; resume with the "
          "settings and texts "
          "the run began with");
  require(position.epoch >= 0 && position.index >= 0 && position.index < windows_.size(),
          "the data position (epoch ", position.epoch, ", window ", position.index,
          ") is outside the ", count_text(windows_.size(), "window"), " of the training part");
  prefetcher_.reset();
  position_ = position;
  start();
}

void BatchStream::start() {
  if (options_.prefetch == 0) {
    return;
  }
  produced_ = position_;
  const auto produce = [this] {
    TokenBatch batch = read(produced_);
    produced_ = after(produced_, options_.batch);
    return batch;
  };
  prefetcher_ = std::make_unique<Prefetcher<TokenBatch>>(produce, options_.prefetch);
}

TokenBatch BatchStream::read(const DataPosition& position) const {
  TokenBatch batch(rows(), windows_.context());
  for (std::int64_t row = 0; row < rows(); ++row) {
    const DataPosition at = after(position, first_row_ + row);
    const Philox random(options_.seed, kShuffleStream, static_cast<std::uint32_t>(at.epoch));
    const auto index = static_cast<std::uint64_t>(at.index);
    const std::uint64_t window =
        options_.shuffle ? Permutation(static_cast<std::uint64_t>(windows_.size()), random)(index)
                         : index;
    windows_.read(static_cast<std::int64_t>(window), batch.row_ids(row), batch.row_counted(row));
  }
  return batch;
}

DataPosition BatchStream::after(DataPosition position, std::int64_t windows) const {
  position.index += windows;
  position.epoch += position.index / windows_.size();
  position.index %= windows_.size();
  return position;
}

}  // namespace darkformer
