// Small matrix products in registers for one Highway target; included inside foreach_target, never
// alone.
// SPDX-License-Identifier: Apache-2.0
//
// For products whose operands sit in cache and are already packed; everything else goes through
// kernels/gemm. Each element of C is one sum over k = 0 … K-1 in that order, whatever M, N and the
// tiling: a row of C depends on its own row of A and on nothing else, to the bit. Causal attention
// relies on it. docs/kernels.md has the choice of tiles.

#if defined(DARKFORMER_KERNELS_TILE_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DARKFORMER_KERNELS_TILE_PRODUCT_INL_H_
#undef DARKFORMER_KERNELS_TILE_PRODUCT_INL_H_
#else
#define DARKFORMER_KERNELS_TILE_PRODUCT_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cassert>
#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A left operand: element (i, k) is data[i * row + k * col], and one of the two strides is 1. row =
// 1 reads a matrix transposed.
struct TileLeft {
  const float* data;
  std::size_t row, col;
  TileLeft at(std::size_t i, std::size_t k) const { return {data + i * row + k * col, row, col}; }
};

// A matrix with unit column stride whose rows may be read (and, in C, written) up to the next
// multiple of the vector length.
struct TileRight {
  const float* data;
  std::size_t ld;
};

struct TileOut {
  float* data;
  std::size_t ld;
  bool accumulate;  // C <- C + A B, else C <- A B
};

inline constexpr std::size_t kTileRows = 6;
#if HWY_TARGET == HWY_AVX3
inline constexpr std::size_t kTileVectors = 4;  // 6 x 4 accumulators of 32 registers
#else
inline constexpr std::size_t kTileVectors = 2;  // 6 x 2 accumulators of 16 registers
#endif
// The rows of B that one pass over C takes: they stay in L1 beside the rows of A.
inline constexpr std::size_t kTileDepth = 64;

// C[kRows x kVectors vectors] (+)= A B, in registers.
template <std::size_t kRows, std::size_t kVectors, bool kTransposed>
HWY_INLINE void tile(std::size_t K, TileLeft left, TileRight right, TileOut c) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const std::size_t lanes = hn::Lanes(d);
  V sum[kRows][kVectors];
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (std::size_t j = 0; j < kVectors; ++j) {
      sum[i][j] = c.accumulate ? hn::LoadU(d, c.data + i * c.ld + j * lanes) : hn::Zero(d);
    }
  }
  const float* a = left.data;
  const float* b = right.data;
  const std::size_t row = left.row, next = kTransposed ? left.col : 1;
  for (std::size_t k = 0; k < K; ++k, a += next, b += right.ld) {
    V values[kVectors];
#pragma GCC unroll 8
    for (std::size_t j = 0; j < kVectors; ++j) {
      values[j] = hn::LoadU(d, b + j * lanes);
    }
#pragma GCC unroll 16
    for (std::size_t i = 0; i < kRows; ++i) {
      const V factor = hn::Set(d, kTransposed ? a[i] : a[i * row]);
#pragma GCC unroll 8
      for (std::size_t j = 0; j < kVectors; ++j) {
        sum[i][j] = hn::MulAdd(factor, values[j], sum[i][j]);
      }
    }
  }
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (std::size_t j = 0; j < kVectors; ++j) {
      hn::StoreU(sum[i][j], d, c.data + i * c.ld + j * lanes);
    }
  }
}

// All full tiles of kRows rows from row i on in one column block; returns the first row not done.
template <std::size_t kRows, std::size_t kVectors, bool kTransposed>
HWY_INLINE std::size_t tile_rows(
    std::size_t i, std::size_t M, std::size_t K, TileLeft a, TileRight b, TileOut c) {
  for (; i + kRows <= M; i += kRows) {
    tile<kRows, kVectors, kTransposed>(K, a.at(i, 0), b, {c.data + i * c.ld, c.ld, c.accumulate});
  }
  return i;
}

template <std::size_t kVectors, bool kTransposed>
HWY_INLINE void tile_columns(std::size_t M, std::size_t K, TileLeft a, TileRight b, TileOut c) {
  std::size_t i = tile_rows<kTileRows, kVectors, kTransposed>(0, M, K, a, b, c);
  i = tile_rows<4, kVectors, kTransposed>(i, M, K, a, b, c);
  i = tile_rows<2, kVectors, kTransposed>(i, M, K, a, b, c);
  tile_rows<1, kVectors, kTransposed>(i, M, K, a, b, c);
}

template <bool kTransposed>
HWY_INLINE void tile_panels(
    std::size_t M, std::size_t N, std::size_t K, TileLeft a, TileRight b, TileOut c) {
  const std::size_t lanes = hn::Lanes(hn::ScalableTag<float>());
  const auto right = [&](std::size_t j) { return TileRight{b.data + j, b.ld}; };
  const auto out = [&](std::size_t j) { return TileOut{c.data + j, c.ld, c.accumulate}; };
  std::size_t j = 0;
  // One or two rows: eight vectors hide the latency of the additions and read B in longer pieces.
  for (; M < 3 && j + 8 * lanes <= N; j += 8 * lanes) {
    tile_rows<1, 8, kTransposed>(0, M, K, a, right(j), out(j));
  }
  for (; j + kTileVectors * lanes <= N; j += kTileVectors * lanes) {
    tile_columns<kTileVectors, kTransposed>(M, K, a, right(j), out(j));
  }
  const std::size_t left = j < N ? (N - j + lanes - 1) / lanes : 0;
  if constexpr (kTileVectors == 4) {
    if (left == 4) {
      return tile_columns<4, kTransposed>(M, K, a, right(j), out(j));
    }
    if (left == 3) {
      return tile_columns<3, kTransposed>(M, K, a, right(j), out(j));
    }
  }
  if (left == 2) {
    return tile_columns<2, kTransposed>(M, K, a, right(j), out(j));
  }
  if (left == 1) {
    tile_columns<1, kTransposed>(M, K, a, right(j), out(j));
  }
}

// C[M x N] (+)= A[M x K] B[K x N]. The columns of B and C from N up to the next multiple of the
// vector length are touched: they must exist, and what they hold afterwards is unspecified. C must
// not overlap A or B.
inline HWY_NOINLINE void tile_product(
    std::size_t M, std::size_t N, std::size_t K, TileLeft a, TileRight b, TileOut c) {
  assert(a.row == 1 || a.col == 1);
  std::size_t k = 0;
  do {  // once for K = 0 too: C <- 0
    const std::size_t depth = K - k < 2 * kTileDepth ? K - k : kTileDepth;
    const TileOut out = {c.data, c.ld, c.accumulate || k > 0};
    if (a.col == 1) {
      tile_panels<false>(M, N, depth, a.at(0, k), {b.data + k * b.ld, b.ld}, out);
    } else {
      tile_panels<true>(M, N, depth, a.at(0, k), {b.data + k * b.ld, b.ld}, out);
    }
    k += depth;
  } while (k < K);
}

#if HWY_TARGET != HWY_SCALAR
// dst[c, r] <- src[r, c] for four columns and one vector of rows. Blocks of four rows are gathered
// on loading, then transposed in place.
template <class D>
HWY_INLINE void transpose_four_columns(
    D d, const float* src, std::size_t src_ld, float* dst, std::size_t dst_ld) {
  const hn::Full128<float> quad;
  const hn::RebindToFloat<hn::RepartitionToWide<hn::RebindToUnsigned<D>>> wide;
  const auto rows_from = [&](std::size_t r) HWY_ATTR {  // rows r, r + 4, r + 8, … in blocks
    const auto block = [&](std::size_t i)
                           HWY_ATTR { return hn::LoadU(quad, src + (r + 4 * i) * src_ld); };
    if constexpr (hn::MaxLanes(D()) == 16) {
      const hn::Half<D> half;
      return hn::Combine(d, hn::Combine(half, block(3), block(2)),
                         hn::Combine(half, block(1), block(0)));
    } else if constexpr (hn::MaxLanes(D()) == 8) {
      return hn::Combine(d, block(1), block(0));
    } else {
      return block(0);
    }
  };
  const auto a = rows_from(0), b = rows_from(1), c = rows_from(2), e = rows_from(3);
  const auto ab0 = hn::BitCast(wide, hn::InterleaveLower(d, a, b)),
             ab1 = hn::BitCast(wide, hn::InterleaveUpper(d, a, b)),
             ce0 = hn::BitCast(wide, hn::InterleaveLower(d, c, e)),
             ce1 = hn::BitCast(wide, hn::InterleaveUpper(d, c, e));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, ab0, ce0)), d, dst);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, ab0, ce0)), d, dst + dst_ld);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, ab1, ce1)), d, dst + 2 * dst_ld);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, ab1, ce1)), d, dst + 3 * dst_ld);
}
#endif

// dst[cols x rows] <- src[rows x cols]^T; strides of rows, in elements.
HWY_INLINE void transpose(std::size_t rows,
                          std::size_t cols,
                          const float* src,
                          std::size_t src_ld,
                          float* dst,
                          std::size_t dst_ld) {
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  for (; i + lanes <= rows; i += lanes) {
    std::size_t j = 0;
    for (; j + 4 <= cols; j += 4) {
      transpose_four_columns(d, src + i * src_ld + j, src_ld, dst + j * dst_ld + i, dst_ld);
    }
    for (; j < cols; ++j) {
      for (std::size_t r = i; r < i + lanes; ++r) {
        dst[j * dst_ld + r] = src[r * src_ld + j];
      }
    }
  }
#endif
  for (; i < rows; ++i) {
    for (std::size_t j = 0; j < cols; ++j) {
      dst[j * dst_ld + i] = src[i * src_ld + j];
    }
  }
}

}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DARKFORMER_KERNELS_TILE_PRODUCT_INL_H_
