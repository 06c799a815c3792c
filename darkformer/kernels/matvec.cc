// Matrix-vector products that read each stored weight once, widened in registers.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/matvec.h"

#include <hwy/cache_control.h>

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "darkformer/kernels/matvec.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

#include "darkformer/base/threads.h"
#include "darkformer/kernels/stored-inl.h"

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {
namespace {

// A tile of rows and vectors shares its loads in registers: kTileRows * kTileVectors sums, enough
// of them to hide the latency of a multiply-add.
constexpr std::size_t kTileRows = 4;
#if HWY_TARGET == HWY_AVX3
constexpr std::size_t kTileVectors = 4;
#else
constexpr std::size_t kTileVectors = 2;
#endif

// The whole product, as the tiles see it.
template <class Stored>
struct Operands {
  const Stored* weight;
  const float* x;
  float* y;
  std::size_t in, out, vectors;
};

// y[n][o] for kRows rows from o and kVectors vectors from n. Each sum runs over i in vector steps:
// its order does not depend on the tile. kFetch: the rows are in cache from an earlier tile, so the
// next ones are asked for meanwhile; memory would have nothing to do otherwise.
template <std::size_t kRows, std::size_t kVectors, bool kFetch, class Stored>
HWY_INLINE void dot_tile(const Operands<Stored>& p, std::size_t o, std::size_t n) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const std::size_t lanes = hn::Lanes(d), in = p.in;
  const Stored* HWY_RESTRICT weight = p.weight + o * in;
  const float* HWY_RESTRICT x = p.x + n * in;
  V sum[kRows][kVectors];
  for (auto& row : sum) {
    for (V& s : row) {
      s = hn::Zero(d);
    }
  }
  const auto add = [&](const auto& load_w, const auto& load_x) HWY_ATTR {
    V right[kVectors];
#pragma GCC unroll 4
    for (std::size_t c = 0; c < kVectors; ++c) {
      right[c] = load_x(c);
    }
#pragma GCC unroll 4
    for (std::size_t r = 0; r < kRows; ++r) {
      const V left = load_w(r);
#pragma GCC unroll 4
      for (std::size_t c = 0; c < kVectors; ++c) {
        sum[r][c] = hn::MulAdd(left, right[c], sum[r][c]);
      }
    }
  };
  const auto fetch_next = [&](std::size_t i) HWY_ATTR {
#pragma GCC unroll 4
    for (std::size_t r = 0; r < kRows; ++r) {
      hwy::Prefetch(weight + (kRows + r) * in + i);
    }
  };
  std::size_t i = 0;
  for (; i + lanes <= in; i += lanes) {
    if (kFetch) {
      fetch_next(i);
    }
    add([&](std::size_t r) HWY_ATTR { return load_stored(d, weight + r * in + i); },
        [&](std::size_t c) HWY_ATTR { return load_stored(d, x + c * in + i); });
  }
  if (i < in) {
    add([&](std::size_t r) HWY_ATTR { return load_stored_tail(d, weight + r * in + i, in - i); },
        [&](std::size_t c) HWY_ATTR { return load_stored_tail(d, x + c * in + i, in - i); });
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t c = 0; c < kVectors; ++c) {
      p.y[(n + c) * p.out + o + r] = hn::GetLane(hn::SumOfLanes(d, sum[r][c]));
    }
  }
}

// All vectors against kRows rows, which come from memory once and from cache after that.
template <std::size_t kRows, class Stored>
HWY_INLINE void dot_rows(const Operands<Stored>& p, std::size_t o) {
  std::size_t n = 0;
  const bool more_rows = o + 2 * kRows <= p.out;
  for (; n + kTileVectors <= p.vectors; n += kTileVectors) {
    if (n == kTileVectors && more_rows) {
      dot_tile<kRows, kTileVectors, true>(p, o, n);
    } else {
      dot_tile<kRows, kTileVectors, false>(p, o, n);
    }
  }
  for (; n + 2 <= p.vectors; n += 2) {
    dot_tile<kRows, 2, false>(p, o, n);
  }
  if (n < p.vectors) {
    dot_tile<kRows, 1, false>(p, o, n);
  }
}

// Rows [begin, end) of the weight.
void matvec_rows(const StoredMatrix& weight,
                 const float* x,
                 std::size_t vectors,
                 float* y,
                 std::size_t begin,
                 std::size_t end) {
  with_stored_type(weight.data, weight.type, [&](const auto* data) HWY_ATTR {
    using Stored = std::remove_const_t<std::remove_pointer_t<decltype(data)>>;
    const Operands<Stored> operands{data, x, y, weight.cols, weight.rows, vectors};
    std::size_t o = begin;
    for (; o + kTileRows <= end; o += kTileRows) {
      dot_rows<kTileRows>(operands, o);
    }
    for (; o < end; ++o) {
      dot_rows<1>(operands, o);
    }
  });
}

}  // namespace
}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace darkformer::kernels {
namespace {
HWY_EXPORT(matvec_rows);

// A thread must have this many bytes to read before it is worth waking.
constexpr std::size_t kBytesPerThread = std::size_t{32} << 10U;
}  // namespace

void matvec(const StoredMatrix& weight, const float* x, std::size_t vectors, float* y) {
  const std::size_t grain = kBytesPerThread / std::max<std::size_t>(1, weight.row_bytes()) + 1;
  parallel_ranges(weight.rows, grain, [&](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(matvec_rows)(weight, x, vectors, y, begin, end);
  });
}

}  // namespace darkformer::kernels
#endif  // HWY_ONCE
