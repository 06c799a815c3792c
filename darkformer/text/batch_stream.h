// The endless stream of training batches: shuffled, shared among ranks, resumable to the window.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "darkformer/text/corpus_split.h"
#include "darkformer/text/prefetch.h"
#include "darkformer/text/token_batch.h"

namespace darkformer {

// Where the next window comes from: everything a checkpoint must keep of the data.
struct DataPosition {
  std::int64_t epoch = 0;         // passes over the training windows done
  std::int64_t index = 0;         // windows of this pass used by all ranks together
  std::uint64_t fingerprint = 0;  // of the corpus, the split, the order: a position fits these only

  bool operator==(const DataPosition&) const = default;
};

struct BatchOptions {
  std::int64_t batch = 1;  // windows of all ranks together
  std::uint64_t seed = 0;
  bool shuffle = true;
  int rank = 0;
  int ranks = 1;
  std::size_t prefetch = 2;  // batches kept ready by a background thread; 0: none, no thread
};

// Window number s = epoch * size + index of the endless stream is window order_epoch(index) of the
// training part, where order_epoch is a Permutation of (seed, epoch). A batch is the next `batch`
// numbers, across the end of an epoch too; rank r of n has its rows [batch r / n, batch (r+1) / n).
// So the rows of all ranks together, in order, do not depend on n, and the stream goes on unchanged
// after restore(position()), also with another batch size, rank count or prefetch. Not thread-safe:
// one consumer.
class BatchStream {
 public:
  // Error: no training window, fewer windows in a batch than ranks.
  BatchStream(const CorpusSplit& split, const BatchOptions& options);
  BatchStream(const BatchStream&) = delete;
  BatchStream& operator=(const BatchStream&) = delete;

  // This rank's rows of the next batch.
  TokenBatch next();
  // Of the batch that next() will give; batches that were prefetched do not count.
  DataPosition position() const { return position_; }
  // Error: a position of another corpus, split or order.
  void restore(const DataPosition& position);

  std::int64_t rows() const { return last_row_ - first_row_; }

 private:
  TokenBatch read(const DataPosition& position) const;
  DataPosition after(DataPosition position, std::int64_t windows) const;
  void start();

  WindowSet windows_;
  BatchOptions options_;
  std::int64_t first_row_;
  std::int64_t last_row_;
  DataPosition position_;
  DataPosition produced_;  // the producing thread's own, while there is one
  std::unique_ptr<Prefetcher<TokenBatch>> prefetcher_;
};

}  // namespace darkformer
