// What forward and backward of exact attention share for one Highway target: packing, and a block
// of masked scores.
// SPDX-License-Identifier: Apache-2.0
//
// Scores are kept transposed, (keys, queries): keys are then the left operand of the product and
// need no packing, the softmax runs down the columns with one query per lane, and only the queries
// are packed, once for all keys. Scores are in base 2: s log2(e), so that P = 2^(S - m).

#if defined(DARKFORMER_KERNELS_EXACT_ATTENTION_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DARKFORMER_KERNELS_EXACT_ATTENTION_BLOCK_INL_H_
#undef DARKFORMER_KERNELS_EXACT_ATTENTION_BLOCK_INL_H_
#else
#define DARKFORMER_KERNELS_EXACT_ATTENTION_BLOCK_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>
#include <limits>

#include "darkformer/kernels/exact_attention_parts.h"
#include "darkformer/kernels/simd_math-inl.h"
#include "darkformer/kernels/tile_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using FloatsV = hn::Vec<Floats>;

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Queries are packed in panels of two vectors, the width of one register tile.
HWY_INLINE std::size_t panel_width() {
  return 2 * hn::Lanes(Floats());
}

// panel[d][i] <- factor rows[i][d] for the columns d; zero for i >= filled.
HWY_INLINE void pack_columns(
    HeadRows rows, std::size_t filled, Range columns, float factor, float* HWY_RESTRICT panel) {
  const std::size_t width = panel_width();
  for (std::size_t d = columns.begin; d < columns.end; ++d) {
    const float* column = rows.data + static_cast<std::ptrdiff_t>(d) * rows.element;
    float* to = panel + d * width;
    for (std::size_t i = 0; i < filled; ++i) {
      to[i] = factor * column[static_cast<std::ptrdiff_t>(i) * rows.time];
    }
    std::fill(to + filled, to + width, 0.0F);
  }
}

// The rows as panels, one after the other: ceil(count / width) of (D, width).
inline void pack_panels(
    HeadRows rows, std::size_t count, std::size_t D, float factor, float* HWY_RESTRICT out) {
  constexpr std::size_t kColumns = 16;  // one cache line of each row at a time
  const std::size_t width = panel_width();
  for (std::size_t i = 0; i < count; i += width, out += D * width) {
    for (std::size_t d = 0; d < D; d += kColumns) {
      pack_columns(rows.from(i), std::min(width, count - i), {d, std::min(D, d + kColumns)}, factor,
                   out);
    }
  }
}

HWY_INLINE std::size_t padded_columns(std::size_t D) {
  return round_up(D, 16) + 16;
}

// spare[count][padded_columns(D)] <- rows, zero beyond D.
inline TileRight copy_rows(HeadRows rows, std::size_t count, std::size_t D, float* spare) {
  const std::size_t ld = padded_columns(D);
  for (std::size_t i = 0; i < count; ++i) {
    const float* from = rows.row(i);
    float* to = spare + i * ld;
    if (rows.element == 1) {
      std::memcpy(to, from, D * sizeof(float));
    } else {
      for (std::size_t d = 0; d < D; ++d) {
        to[d] = from[static_cast<std::ptrdiff_t>(d) * rows.element];
      }
    }
    std::fill(to + D, to + ld, 0.0F);
  }
  return {spare, ld};
}

// The rows where they are if whole vectors can be read there, else a copy in `spare`.
inline TileRight whole_rows(HeadRows rows, std::size_t count, std::size_t D, float* spare) {
  const bool in_place =
      D % hn::Lanes(Floats()) == 0 && rows.element == 1 && (rows.time >= 0 || count == 1);
  return in_place ? TileRight{rows.data, static_cast<std::size_t>(rows.time)}
                  : copy_rows(rows, count, D, spare);
}

// The same for operands of tile_product, whose rows are read side by side: rows a multiple of 4 KiB
// apart would all fall into one cache set.
inline TileRight tile_rows_of(HeadRows rows, std::size_t count, std::size_t D, float* spare) {
  constexpr std::ptrdiff_t kPage = 4096 / sizeof(float);
  return rows.time != 0 && rows.time % kPage == 0 ? copy_rows(rows, count, D, spare)
                                                  : whole_rows(rows, count, D, spare);
}

HWY_INLINE TileLeft as_left(TileRight rows) {
  return {rows.data, rows.ld, 1};
}

HWY_INLINE TileRight from_row(TileRight rows, std::size_t i) {
  return {rows.data + i * rows.ld, rows.ld};
}

// A (keys, queries) matrix of one block inside an array of kQueryBlock columns: read as it is, or
// transposed.
HWY_INLINE TileLeft as_keys_by_queries(const float* block) {
  return {block, kQueryBlock, 1};
}
HWY_INLINE TileLeft as_queries_by_keys(const float* block) {
  return {block, 1, kQueryBlock};
}

struct Block {
  Range queries, keys;
};

// The queries of panel p of a block.
HWY_INLINE Range panel_queries(Range queries, std::size_t p) {
  const std::size_t begin = queries.begin + p * panel_width();
  return {begin, std::min(begin + panel_width(), queries.end)};
}

HWY_INLINE std::size_t panel_count(Range queries) {
  return (queries.size() + panel_width() - 1) / panel_width();
}

// s <- cap tanh(s)
inline void cap_scores(float cap, std::size_t keys, float* HWY_RESTRICT s) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t j = 0; j < keys; ++j, s += kQueryBlock) {
    for (std::size_t c = 0; c < 2 * lanes; c += lanes) {
      hn::StoreU(hn::Mul(hn::Set(d, cap), tanh(d, hn::LoadU(d, s + c))), d, s + c);
    }
  }
}

// s <- -infinity where the key is not visible. Lanes beyond the last query follow the same rule.
inline void mask_scores(const Visibility& mask, Block block, float* HWY_RESTRICT s) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const std::size_t lanes = hn::Lanes(d);
  const auto none = hn::Set(d, -kInfinity);
  const auto rising = hn::Iota(di, 0);
  const auto from = [&](std::ptrdiff_t first) HWY_ATTR {
    return hn::Add(rising, hn::Set(di, static_cast<std::int32_t>(first)));
  };
  for (std::size_t j = block.keys.begin; j < block.keys.end; ++j, s += kQueryBlock) {
    const auto key = hn::Set(di, static_cast<std::int32_t>(j));
    const bool sink = static_cast<std::ptrdiff_t>(j) < mask.sinks();
    for (std::size_t c = 0; c < 2 * lanes; c += lanes) {
      const std::size_t i = block.queries.begin + c;
      const auto last = from(mask.last(i)), first = from(mask.before_window(i) + 1);
      auto hidden = hn::Gt(key, last);
      if (!sink) {
        hidden = hn::Or(hidden, hn::Gt(first, key));
      }
      hn::StoreU(hn::IfThenElse(hn::RebindMask(d, hidden), none, hn::LoadU(d, s + c)), d, s + c);
    }
  }
}

// The rows of one panel from `begin` to `end` (keys, relative to the block) <- value.
inline void fill_panel(float* panel, std::size_t begin, std::size_t end, float value) {
  for (std::size_t j = begin; j < end; ++j) {
    std::fill_n(panel + j * kQueryBlock, panel_width(), value);
  }
}

// Rows of the panel outside `part` (keys) <- value.
HWY_INLINE void fill_unseen(float* panel, Range keys, Range part, float value) {
  if (part.empty()) {
    fill_panel(panel, 0, keys.size(), value);
    return;
  }
  fill_panel(panel, 0, part.begin - keys.begin, value);
  fill_panel(panel, part.end - keys.begin, keys.size(), value);
}

// s[j][i] <- base-2 score of key j and query i, -infinity where not visible.   K Q^T
inline void score_block(const Visibility& mask,
                        ScoreFactors scoring,
                        std::size_t D,
                        Block block,
                        TileRight k,
                        const float* q_panels,
                        float* s) {
  const std::size_t width = panel_width();
  for (std::size_t p = 0; p < panel_count(block.queries); ++p) {
    const Range queries = panel_queries(block.queries, p);
    const Range part = mask.seen(queries, block.keys);
    float* panel = s + p * width;
    fill_unseen(panel, block.keys, part, -kInfinity);
    if (part.empty()) {
      continue;
    }
    const std::size_t skipped = part.begin - block.keys.begin;
    float* seen = panel + skipped * kQueryBlock;
    tile_product(part.size(), width, D, as_left(from_row(k, skipped)),
                 {q_panels + p * D * width, width}, {seen, kQueryBlock, false});
    if (scoring.cap > 0.0F) {
      cap_scores(scoring.cap, part.size(), seen);
    }
    if (!mask.full(queries, part)) {
      mask_scores(mask, {queries, part}, seen);
    }
  }
}

// Rows of a result that share one product in blocks where not all is visible: a multiple of the
// tile rows, small enough to follow the diagonal.
inline constexpr std::size_t kEdgeRows = 24;

// out[i] <- out[i] + sum over keys of weights[key][i] right[key], for the queries of the block.
inline void add_over_keys(const Visibility& mask,
                          Block block,
                          std::size_t columns,
                          const float* weights,
                          TileRight right,
                          TileOut out) {
  const std::size_t rows = block.queries.size();
  const std::size_t step = mask.full(block.queries, block.keys) ? rows : kEdgeRows;
  for (std::size_t i = 0; i < rows; i += step) {
    const std::size_t count = std::min(step, rows - i);
    const std::size_t first = block.queries.begin + i;
    const Range part = mask.seen({first, first + count}, block.keys);
    if (!part.empty()) {
      const std::size_t skipped = part.begin - block.keys.begin;
      tile_product(count, columns, part.size(),
                   as_queries_by_keys(weights + skipped * kQueryBlock + i),
                   from_row(right, skipped), {out.data + i * out.ld, out.ld, true});
    }
  }
}

// out[j] <- out[j] + sum over queries of weights[j][query] right[query], for the keys of the block.
inline void add_over_queries(const Visibility& mask,
                             Block block,
                             std::size_t columns,
                             const float* weights,
                             TileRight right,
                             TileOut out) {
  const std::size_t rows = block.keys.size();
  const std::size_t step = mask.full(block.queries, block.keys) ? rows : kEdgeRows;
  for (std::size_t j = 0; j < rows; j += step) {
    const std::size_t count = std::min(step, rows - j);
    const std::size_t first = block.keys.begin + j;
    const Range part = mask.seeing(block.queries, {first, first + count});
    if (!part.empty()) {
      const std::size_t skipped = part.begin - block.queries.begin;
      tile_product(count, columns, part.size(),
                   as_keys_by_queries(weights + j * kQueryBlock + skipped),
                   from_row(right, skipped), {out.data + j * out.ld, out.ld, true});
    }
  }
}

}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DARKFORMER_KERNELS_EXACT_ATTENTION_BLOCK_INL_H_
