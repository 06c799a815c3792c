// Which keys a range of queries sees, and how exact attention cuts both into blocks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "darkformer/kernels/exact_attention.h"

namespace darkformer::kernels {

// Blocks of queries and keys. Multiples of the tile rows (12 and 6) and of two vectors (32, 16, 8
// floats); the 96 x 96 scores take 36 KiB, the packed queries 96 KiB at D = 256.
inline constexpr std::size_t kQueryBlock = 96;
inline constexpr std::size_t kKeyBlock = 96;

// [begin, end), empty where end <= begin.
struct Range {
  std::size_t begin = 0, end = 0;
  bool empty() const { return end <= begin; }
  std::size_t size() const { return empty() ? 0 : end - begin; }
};

inline Range intersect(Range x, Range y) {
  return {std::max(x.begin, y.begin), std::min(x.end, y.end)};
}

// The mask as arithmetic on ranges. Ranges of queries are never empty here.
class Visibility {
 public:
  explicit Visibility(const ExactAttention& a)
      : causal_(a.causal),
        S_(signed_size(a.S)),
        T_(signed_size(a.T)),
        sinks_(signed_size(a.sinks)),
        window_(a.window == 0 ? S_ + T_ : signed_size(a.window)) {}

  // The last key that query i sees, perhaps negative, and the one before its window.
  std::ptrdiff_t last(std::size_t i) const { return causal_ ? signed_size(i) + S_ - T_ : S_ - 1; }
  std::ptrdiff_t before_window(std::size_t i) const { return causal_ ? last(i) - window_ : -1; }
  std::ptrdiff_t sinks() const { return sinks_; }

  // The smallest part of `keys` outside of which none is visible to any of the queries.
  Range seen(Range queries, Range keys) const {
    const auto end = std::max<std::ptrdiff_t>(0, last(queries.end - 1) + 1);
    const auto low = std::max<std::ptrdiff_t>(0, before_window(queries.begin) + 1);
    const bool has_sink = signed_size(keys.begin) < sinks_;
    const auto begin = has_sink ? 0 : static_cast<std::size_t>(low);
    Range part = intersect(keys, {begin, static_cast<std::size_t>(end)});
    if (has_sink && low >= signed_size(part.end)) {  // sinks only
      part.end = std::min(part.end, static_cast<std::size_t>(sinks_));
    }
    return part;
  }
  // The smallest part of `queries` outside of which none sees any of the keys.
  Range seeing(Range queries, Range keys) const {
    if (!causal_) {
      return queries;
    }
    const auto begin = std::max<std::ptrdiff_t>(0, signed_size(keys.begin) - S_ + T_);
    const bool has_sink = signed_size(keys.begin) < sinks_;
    const auto end = std::max<std::ptrdiff_t>(0, signed_size(keys.end) - 1 + window_ - S_ + T_);
    const Range all = intersect(queries, {static_cast<std::size_t>(begin), queries.end});
    return has_sink ? all : intersect(all, {0, static_cast<std::size_t>(end)});
  }
  // Every query sees every key.
  bool full(Range queries, Range keys) const {
    if (!causal_) {
      return true;
    }
    const bool past = signed_size(keys.end) - 1 <= last(queries.begin);
    // Sinks need no window: the first other key decides.
    const bool near = std::max(signed_size(keys.begin), sinks_) > before_window(queries.end - 1);
    return past && (near || signed_size(keys.end) <= sinks_);
  }

 private:
  static std::ptrdiff_t signed_size(std::size_t n) { return static_cast<std::ptrdiff_t>(n); }

  bool causal_;
  std::ptrdiff_t S_, T_, sinks_, window_;
};

// Calls body(keys) for each block of keys that some of the queries see, in ascending order. Blocks
// start at multiples of kKeyBlock, so that a row's sums do not depend on what follows it.
template <class Body>
void for_each_key_block(const Visibility& mask, Range queries, std::size_t S, const Body& body) {
  for (std::size_t begin = 0; begin < S; begin += kKeyBlock) {
    const Range keys = mask.seen(queries, {begin, std::min(begin + kKeyBlock, S)});
    if (!keys.empty()) {
      body(keys);
    }
  }
}

// The rows of one head. Row i starts at data + i * time.
struct HeadRows {
  const float* data;
  std::ptrdiff_t time, element;
  const float* row(std::size_t i) const { return data + static_cast<std::ptrdiff_t>(i) * time; }
  HeadRows from(std::size_t i) const { return {row(i), time, element}; }
};

inline HeadRows rows_of(HeadsView<const float> view, std::size_t b, std::size_t h) {
  return {view.row(b, h, 0), view.time, view.element};
}

struct HeadRowsOut {
  float* data;
  std::ptrdiff_t time, element;
  float* row(std::size_t i) const { return data + static_cast<std::ptrdiff_t>(i) * time; }
};

inline HeadRowsOut rows_of(HeadsView<float> view, std::size_t b, std::size_t h) {
  return {view.row(b, h, 0), view.time, view.element};
}

// Hands out pieces of one scratch array, each aligned to a cache line. With null memory it only
// counts.
class Pieces {
 public:
  explicit Pieces(float* memory) : memory_(memory) {}
  float* take(std::size_t count) {
    float* piece = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += (count + 15) / 16 * 16;
    return piece;
  }
  std::size_t used() const { return used_; }

 private:
  float* memory_;
  std::size_t used_ = 0;
};

inline std::size_t round_up(std::size_t size, std::size_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

}  // namespace darkformer::kernels
