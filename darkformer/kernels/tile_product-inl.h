// Small matrix products in registers for one Highway target; included inside foreach_target, never
// alone.
// SPDX-License-Identifier: Apache-2.0
//
// For products whose operands sit in cache and are already packed; everything else goes through
// kernels/gemm. Each element of C is one sum over k = 0 … K-1 in that order, whatever M, N and the
// tiling: a row of C depends on its own row of A and on nothing else, to the bit. Causal attention
// relies on it.

#if defined(DARKFORMER_KERNELS_TILE_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DARKFORMER_KERNELS_TILE_PRODUCT_INL_H_
#undef DARKFORMER_KERNELS_TILE_PRODUCT_INL_H_
#else
#define DARKFORMER_KERNELS_TILE_PRODUCT_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A left operand with any strides: element (i, k) is data[i * row + k * col]. row = 1 reads a
// matrix transposed.
struct TileLeft {
  const float* data;
  std::size_t row, col;
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

#if HWY_TARGET == HWY_AVX3
inline constexpr std::size_t kTileRows = 12;  // 12 x 2 accumulators of 32 registers
#else
inline constexpr std::size_t kTileRows = 6;  // 6 x 2 accumulators of 16 registers
#endif

// C[kRows x kVectors vectors] (+)= A B, in registers.
template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void tile(std::size_t K, TileLeft a, TileRight b, TileOut c) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const std::size_t lanes = hn::Lanes(d);
  V sum[kRows][kVectors];
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (std::size_t j = 0; j < kVectors; ++j) {
      sum[i][j] = c.accumulate ? hn::LoadU(d, c.data + i * c.ld + j * lanes) : hn::Zero(d);
    }
  }
  for (std::size_t k = 0; k < K; ++k) {
    V right[kVectors];
#pragma GCC unroll 4
    for (std::size_t j = 0; j < kVectors; ++j) {
      right[j] = hn::LoadU(d, b.data + k * b.ld + j * lanes);
    }
#pragma GCC unroll 16
    for (std::size_t i = 0; i < kRows; ++i) {
      const V left = hn::Set(d, a.data[i * a.row + k * a.col]);
#pragma GCC unroll 4
      for (std::size_t j = 0; j < kVectors; ++j) {
        sum[i][j] = hn::MulAdd(left, right[j], sum[i][j]);
      }
    }
  }
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (std::size_t j = 0; j < kVectors; ++j) {
      hn::StoreU(sum[i][j], d, c.data + i * c.ld + j * lanes);
    }
  }
}

// All full tiles of kRows rows from row i on in one column block; returns the first row not done.
template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE std::size_t tile_rows(
    std::size_t i, std::size_t M, std::size_t K, TileLeft a, TileRight b, TileOut c) {
  for (; i + kRows <= M; i += kRows) {
    tile<kRows, kVectors>(K, {a.data + i * a.row, a.row, a.col}, b,
                          {c.data + i * c.ld, c.ld, c.accumulate});
  }
  return i;
}

template <std::size_t kVectors>
HWY_INLINE void tile_columns(std::size_t M, std::size_t K, TileLeft a, TileRight b, TileOut c) {
  std::size_t i = tile_rows<kTileRows, kVectors>(0, M, K, a, b, c);
  if constexpr (kTileRows > 6) {
    i = tile_rows<6, kVectors>(i, M, K, a, b, c);
  }
  i = tile_rows<3, kVectors>(i, M, K, a, b, c);
  tile_rows<1, kVectors>(i, M, K, a, b, c);
}

// C[M x N] (+)= A[M x K] B[K x N]. The columns of B and C from N up to the next multiple of the
// vector length are touched: they must exist, and what they hold afterwards is unspecified. C must
// not overlap A or B.
inline HWY_NOINLINE void tile_product(
    std::size_t M, std::size_t N, std::size_t K, TileLeft a, TileRight b, TileOut c) {
  const std::size_t lanes = hn::Lanes(hn::ScalableTag<float>());
  std::size_t j = 0;
  // One or two rows: eight vectors hide the latency of the additions and read B in longer pieces.
  for (; M < 3 && j + 8 * lanes <= N; j += 8 * lanes) {
    tile_rows<1, 8>(0, M, K, a, {b.data + j, b.ld}, {c.data + j, c.ld, c.accumulate});
  }
  for (; j + 2 * lanes <= N; j += 2 * lanes) {
    tile_columns<2>(M, K, a, {b.data + j, b.ld}, {c.data + j, c.ld, c.accumulate});
  }
  for (; j < N; j += lanes) {
    tile_columns<1>(M, K, a, {b.data + j, b.ld}, {c.data + j, c.ld, c.accumulate});
  }
}

// dst[cols x rows] <- src[rows x cols]^T; strides of rows, in elements.
HWY_INLINE void transpose(std::size_t rows,
                          std::size_t cols,
                          const float* src,
                          std::size_t src_ld,
                          float* dst,
                          std::size_t dst_ld) {
  constexpr std::size_t kBlock = 16;  // a 16 x 16 block of source and target stays in L1
  for (std::size_t i0 = 0; i0 < rows; i0 += kBlock) {
    const std::size_t i1 = i0 + kBlock < rows ? i0 + kBlock : rows;
    for (std::size_t j0 = 0; j0 < cols; j0 += kBlock) {
      const std::size_t j1 = j0 + kBlock < cols ? j0 + kBlock : cols;
      for (std::size_t j = j0; j < j1; ++j) {
        for (std::size_t i = i0; i < i1; ++i) {
          dst[j * dst_ld + i] = src[i * src_ld + j];
        }
      }
    }
  }
}

}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DARKFORMER_KERNELS_TILE_PRODUCT_INL_H_
