// What the model is fed: rows of token ids and which of them count.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace darkformer {

// Row b has the inputs ids[b][0 .. T) and the targets ids[b][1 .. T]; rows lie one behind the
// other.
struct TokenBatch {
  std::int64_t rows = 0;              // B
  std::int64_t context = 0;           // T
  std::vector<std::int64_t> ids;      // (B,T+1)
  std::vector<std::uint8_t> counted;  // (B,T): 1 where the target takes part in the loss

  TokenBatch() = default;
  TokenBatch(std::int64_t row_count, std::int64_t context_tokens)
      : rows(row_count),
        context(context_tokens),
        ids(static_cast<std::size_t>(rows * (context + 1))),
        counted(static_cast<std::size_t>(rows * context)) {}

  std::int64_t* row_ids(std::int64_t row) { return ids.data() + row * (context + 1); }
  std::uint8_t* row_counted(std::int64_t row) { return counted.data() + row * context; }

  bool operator==(const TokenBatch&) const = default;
};

}  // namespace darkformer
