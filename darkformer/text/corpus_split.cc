// Windows, and the two ways to hold some of them out.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/corpus_split.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <utility>

#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"

namespace darkformer {
namespace {

constexpr std::uint32_t kSplitStream = 0x53504C54;  // "SPLT": apart from all other uses of Philox

std::int64_t count_windows(std::int64_t tokens, std::int64_t context) {
  return tokens == 0 ? 0 : (tokens - 1) / context;
}

// The streams of both sides, and how many documents the smaller one has.
struct DocumentSides {
  std::shared_ptr<TokenStretches> train;
  std::shared_ptr<TokenStretches> held_out;
  std::int64_t fewest_documents = 0;
};

DocumentSides divide_documents(const std::shared_ptr<const PackedTokens>& tokens, double held_out) {
  DocumentSides sides{std::make_shared<TokenStretches>(tokens),
                      std::make_shared<TokenStretches>(tokens)};
  const auto limit = static_cast<std::uint64_t>(std::ldexp(held_out, 64));
  std::int64_t begin = 0;
  std::int64_t held_out_documents = 0;
  for (std::size_t s = 0; s < tokens->shards().size(); ++s) {
    const TokenShard& shard = *tokens->shards()[s];
    for (std::int64_t d = 0; d < shard.info().documents; ++d) {
      const bool is_held_out = shard.document_hash(d) < limit;
      const std::int64_t end = begin + shard.document_end(d) - shard.document_begin(d) + 2;
      (is_held_out ? sides.held_out : sides.train)->add(begin, end);
      held_out_documents += is_held_out ? 1 : 0;
      begin = end;
    }
  }
  assert(begin == tokens->size());
  sides.fewest_documents = std::min(held_out_documents, tokens->documents() - held_out_documents);
  return sides;
}

std::shared_ptr<const TokenStretches> whole(const std::shared_ptr<const PackedTokens>& tokens) {
  auto stretches = std::make_shared<TokenStretches>(tokens);
  stretches->add(0, tokens->size());
  return stretches;
}

// False, and nothing done, if kAuto finds that there are too few documents.
bool split_documents(const std::shared_ptr<const PackedTokens>& tokens,
                     const SplitOptions& options,
                     CorpusSplit& split) {
  const DocumentSides sides = divide_documents(tokens, options.held_out);
  const WindowSet train(sides.train, options.context);
  const WindowSet held_out(sides.held_out, options.context);
  const bool enough =
      sides.fewest_documents >= kFewDocuments && std::min(train.size(), held_out.size()) > 0;
  if (options.unit == SplitUnit::kAuto && !enough) {
    return false;
  }
  split.train = train;
  split.held_out = held_out;
  split.unit = SplitUnit::kDocument;
  return true;
}

// The first windows of a fixed shuffled order are held out, at least one.
void split_windows(const std::shared_ptr<const PackedTokens>& tokens,
                   const SplitOptions& options,
                   CorpusSplit& split) {
  const auto all = whole(tokens);
  const std::int64_t count = count_windows(all->size(), options.context);
  const auto share =
      static_cast<std::int64_t>(std::llround(options.held_out * static_cast<double>(count)));
  require(count >= 2, "the corpus has ", count_text(count, "window"), " of ", options.context + 1,
          " tokens, too few to hold some out; take a shorter context or more text");
  const std::int64_t held_out = std::clamp<std::int64_t>(share, 1, count - 1);
  const Permutation order(static_cast<std::uint64_t>(count), Philox(0, kSplitStream));
  split.held_out = WindowSet(all, options.context, order, 0, held_out);
  split.train = WindowSet(all, options.context, order, held_out, count - held_out);
}

void require_windows(const WindowSet& windows,
                     const char* side,
                     const SplitOptions& options,
                     std::int64_t tokens) {
  require(windows.size() > 0, "the ", side, " has no window of ", options.context + 1,
          " tokens (the corpus has ", count_text(tokens, "token"),
          "); take a shorter context, more text or another held-out share");
}

}  // namespace

WindowSet::WindowSet(std::shared_ptr<const TokenStretches> tokens,
                     std::int64_t context,
                     Permutation order,
                     std::int64_t first,
                     std::int64_t count)
    : tokens_(std::move(tokens)), context_(context), order_(order), first_(first), count_(count) {}

WindowSet::WindowSet(std::shared_ptr<const TokenStretches> tokens, std::int64_t context)
    : tokens_(std::move(tokens)),
      context_(context),
      count_(count_windows(tokens_->size(), context)) {}

std::int64_t WindowSet::number(std::int64_t i) const {
  assert(i >= 0 && i < count_);
  const std::int64_t place = first_ + i;
  return order_ ? static_cast<std::int64_t>((*order_)(static_cast<std::uint64_t>(place))) : place;
}

void WindowSet::read(std::int64_t i, std::int64_t* ids, std::uint8_t* counted) const {
  std::vector<std::uint8_t> starts(static_cast<std::size_t>(context_ + 1));
  tokens_->copy(number(i) * context_, context_ + 1, ids, starts.data());
  for (std::int64_t t = 0; t < context_; ++t) {
    counted[t] = starts[static_cast<std::size_t>(t) + 1] == 0 ? 1 : 0;
  }
}

TokenBatch WindowSet::read_batch(std::int64_t first, std::int64_t rows) const {
  TokenBatch batch(std::clamp<std::int64_t>(count_ - first, 0, rows), context_);
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    read(first + row, batch.row_ids(row), batch.row_counted(row));
  }
  return batch;
}

CorpusSplit split_corpus(const std::shared_ptr<const PackedTokens>& tokens,
                         const SplitOptions& options) {
  require(options.context > 0, "the context must be at least 1 token, not ", options.context);
  require(options.held_out >= 0 && options.held_out < 1,
          "the held-out share must be in [0, 1), not ", options.held_out);
  CorpusSplit split;
  if (options.held_out == 0) {
    split.train = WindowSet(whole(tokens), options.context);
  } else if (options.unit == SplitUnit::kWindow || !split_documents(tokens, options, split)) {
    split_windows(tokens, options, split);
  }
  require_windows(split.train, "training part", options, tokens->size());
  if (options.held_out > 0) {
    require_windows(split.held_out, "held-out part", options, tokens->size());
  }
  split.fingerprint = KeyBuilder()
                          .add(tokens->fingerprint())
                          .add(static_cast<std::uint64_t>(options.context))
                          .add(std::bit_cast<std::uint64_t>(options.held_out))
                          .add(static_cast<std::uint64_t>(split.unit))
                          .value();
  return split;
}

}  // namespace darkformer
