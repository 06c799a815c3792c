// A corpus cut into windows, some of them held out from training.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "darkformer/base/philox.h"
#include "darkformer/text/packed_tokens.h"
#include "darkformer/text/permutation.h"
#include "darkformer/text/token_batch.h"

namespace darkformer {

enum class SplitUnit {
  kAuto,  // documents if each side gets at least kFewDocuments of them and a window, else windows
  kDocument,  // by the hash of the document's ids: the same text is on the same side in every
              // corpus
  kWindow,    // for corpora of few documents: by the number of the window
};

inline constexpr std::int64_t kFewDocuments = 8;

// Windows of T+1 tokens: window w is [wT, wT + T] of its stream, so each token but the first is a
// target once. The last tokens that do not fill a window are left out. Thread-safe.
class WindowSet {
 public:
  WindowSet() = default;
  // The windows number order(first), order(first + 1), ... order(first + count - 1) of the
  // stretches.
  WindowSet(std::shared_ptr<const TokenStretches> tokens,
            std::int64_t context,
            Permutation order,
            std::int64_t first,
            std::int64_t count);
  // All windows of the stretches, in their order.
  WindowSet(std::shared_ptr<const TokenStretches> tokens, std::int64_t context);

  std::int64_t size() const { return count_; }
  std::int64_t context() const { return context_; }
  // The place of window i in the stream of its side: not the same for two windows.
  std::int64_t number(std::int64_t i) const;
  // Window i into ids (T+1) and counted (T); the BOS of a document is no target that counts.
  void read(std::int64_t i, std::int64_t* ids, std::uint8_t* counted) const;
  // Windows first, first + 1, ...: at most `rows`, fewer at the end.
  TokenBatch read_batch(std::int64_t first, std::int64_t rows) const;

 private:
  std::shared_ptr<const TokenStretches> tokens_;
  std::int64_t context_ = 0;
  std::optional<Permutation> order_;
  std::int64_t first_ = 0;
  std::int64_t count_ = 0;
};

struct SplitOptions {
  std::int64_t context = 0;  // T
  double held_out = 0;       // the share of the corpus, in [0, 1)
  SplitUnit unit = SplitUnit::kAuto;
};

struct CorpusSplit {
  WindowSet train;
  WindowSet held_out;  // empty if nothing is held out
  SplitUnit unit = SplitUnit::kWindow;
  std::uint64_t fingerprint = 0;  // of the corpus and of the options
};

// No target token of one side is a target of the other. By documents, no document (nor a copy of
// it) is on both sides; by windows, a document may go on from one side to the other. The split
// depends on no seed: runs with different seeds are compared on the same held-out text. Error: no
// window on a side that should have some.
CorpusSplit split_corpus(const std::shared_ptr<const PackedTokens>& tokens,
                         const SplitOptions& options);

}  // namespace darkformer
