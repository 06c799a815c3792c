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

// A tile of rows and vectors shares its loads in registers: rows * vectors sums, enough of them to
// hide the latency of a multiply-add. A weight is widened once for all vectors of a tile, so that
// many vectors want a wide one where there are registers for it (bench decode --batch 1,16).
constexpr std::size_t kTileRows = 4;
#if HWY_TARGET == HWY_AVX3
constexpr std::size_t kTileVectors = 4, kWideRows = 3, kWideVectors = 8;
// Keeps a vector in its register: g++ would read it again from memory for each of its products.
template <class V>
HWY_INLINE void keep_in_register(V& vector) {
  asm("" : "+v"(vector.raw));
}

// sums[i] <- the sum of the 16 lanes of v[i], for 8 vectors: lanes 8 apart are added, then 4, 2 and
// 1 apart, several vectors in one register. One by one it would take as long as the products of a
// short row.
template <class V>
HWY_INLINE void sum_eight(const V* v, float* sums) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> d32;
  const hn::Repartition<std::uint64_t, decltype(d)> d64;
  const auto halves = [&](V a, V b) HWY_ATTR {  // blocks of 4 lanes: a a b b
    return hn::Add(hn::ConcatLowerLower(d, b, a), hn::ConcatUpperUpper(d, b, a));
  };
  const auto blocks = [&](V ab, V ce) HWY_ATTR {  // a c b e
    const auto bits_ab = hn::BitCast(d32, ab), bits_ce = hn::BitCast(d32, ce);
    const auto same = hn::OddEvenBlocks(bits_ce, bits_ab);
    const auto other = hn::SwapAdjacentBlocks(hn::OddEvenBlocks(bits_ab, bits_ce));
    return hn::Add(hn::BitCast(d, same), hn::BitCast(d, other));
  };
  const auto low = hn::BitCast(d64, blocks(halves(v[0], v[1]), halves(v[2], v[3])));
  const auto high = hn::BitCast(d64, blocks(halves(v[4], v[5]), halves(v[6], v[7])));
  const V pairs = hn::Add(hn::BitCast(d, hn::InterleaveLower(d64, low, high)),
                          hn::BitCast(d, hn::InterleaveUpper(d64, low, high)));
  HWY_ALIGN float lanes[16];
  hn::Store(hn::Add(pairs, hn::Shuffle2301(pairs)), d, lanes);
  const float ordered[8] = {lanes[0], lanes[8],  lanes[4], lanes[12],
                            lanes[2], lanes[10], lanes[6], lanes[14]};
  std::copy_n(ordered, 8, sums);
}

// The sums of the lanes of any number of vectors, each in the same order.
template <std::size_t kCount, class V>
HWY_INLINE void sum_lanes(const V* v, float* sums) {
  constexpr std::size_t kWhole = kCount / 8 * 8, kRest = kCount % 8;
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kWhole; i += 8) {
    sum_eight(v + i, sums + i);
  }
  if constexpr (kRest > 0) {
    V rest[8];
    float rest_sums[8];
#pragma GCC unroll 8
    for (std::size_t i = 0; i < 8; ++i) {
      rest[i] = i < kRest ? v[kWhole + i] : hn::Zero(hn::ScalableTag<float>());
    }
    sum_eight(rest, rest_sums);
    std::copy_n(rest_sums, kRest, sums + kWhole);
  }
}
#else
template <class V>
HWY_INLINE void keep_in_register(V& /*vector*/) {}

template <std::size_t kCount, class V>
HWY_INLINE void sum_lanes(const V* v, float* sums) {
  const hn::ScalableTag<float> d;
  for (std::size_t i = 0; i < kCount; ++i) {
    sums[i] = hn::GetLane(hn::SumOfLanes(d, v[i]));
  }
}
constexpr std::size_t kTileVectors = 2, kWideRows = kTileRows, kWideVectors = kTileVectors;
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
  V sum[kRows * kVectors];
#pragma GCC unroll 24
  for (std::size_t i = 0; i < kRows * kVectors; ++i) {
    sum[i] = hn::Zero(d);
  }
  const auto add = [&](const auto& load_w, const auto& load_x) HWY_ATTR {
    V left[kRows];
#pragma GCC unroll 4
    for (std::size_t r = 0; r < kRows; ++r) {
      left[r] = load_w(r);
    }
#pragma GCC unroll 8
    for (std::size_t c = 0; c < kVectors; ++c) {
      V right = load_x(c);
      keep_in_register(right);
#pragma GCC unroll 4
      for (std::size_t r = 0; r < kRows; ++r) {
        sum[c * kRows + r] = hn::MulAdd(left[r], right, sum[c * kRows + r]);
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
  float sums[kRows * kVectors];
  sum_lanes<kRows * kVectors>(sum, sums);
#pragma GCC unroll 8
  for (std::size_t c = 0; c < kVectors; ++c) {
#pragma GCC unroll 4
    for (std::size_t r = 0; r < kRows; ++r) {
      p.y[(n + c) * p.out + o + r] = sums[c * kRows + r];
    }
  }
}

// All vectors against kRows rows, which come from memory once and from cache after that.
template <std::size_t kRows, std::size_t kVectors, class Stored>
HWY_INLINE void dot_rows(const Operands<Stored>& p, std::size_t o) {
  std::size_t n = 0;
  const bool more_rows = o + 2 * kRows <= p.out;
  for (; n + kVectors <= p.vectors; n += kVectors) {
    if (n == kVectors && more_rows) {
      dot_tile<kRows, kVectors, true>(p, o, n);
    } else {
      dot_tile<kRows, kVectors, false>(p, o, n);
    }
  }
  if (kVectors > 4 && n + 4 <= p.vectors) {
    dot_tile<kRows, 4, false>(p, o, n);
    n += 4;
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
    for (; vectors >= kWideVectors && o + kWideRows <= end; o += kWideRows) {
      dot_rows<kWideRows, kWideVectors>(operands, o);
    }
    for (; o + kTileRows <= end; o += kTileRows) {
      dot_rows<kTileRows, kTileVectors>(operands, o);
    }
    for (; o < end; ++o) {
      dot_rows<1, kTileVectors>(operands, o);
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
