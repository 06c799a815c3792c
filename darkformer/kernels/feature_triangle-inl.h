// Products with the lower triangle of a block of feature attention, for one Highway target: row i
// is a query, and sees the keys j <= i of its block.
// SPDX-License-Identifier: Apache-2.0

#if defined(DARKFORMER_KERNELS_FEATURE_TRIANGLE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DARKFORMER_KERNELS_FEATURE_TRIANGLE_INL_H_
#undef DARKFORMER_KERNELS_FEATURE_TRIANGLE_INL_H_
#else
#define DARKFORMER_KERNELS_FEATURE_TRIANGLE_INL_H_
#endif

#include <algorithm>

#include "darkformer/kernels/feature_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {

// The lower triangle of A[rows x rows] <- left right, each row of tiles up to its diagonal; what
// stands right of the diagonal is for clear_upper to clear.
HWY_INLINE void lower_product(
    std::size_t rows, std::size_t K, TileLeft left, TileRight right, float* a, std::size_t ld) {
  for (std::size_t k = 0; k < K; k += kTileDepth) {
    const std::size_t depth = std::min(kTileDepth, K - k);
    for (std::size_t i = 0; i < rows; i += kTileRows) {
      const std::size_t tall = std::min(kTileRows, rows - i);
      tile_product(tall, i + tall, depth, left.at(i, k), {right.data + k * right.ld, right.ld},
                   {a + i * ld, ld, k > 0});
    }
  }
}

// Row by row of a lower triangle: A[i,j] <- A[i,j] + shift[i] (where given) for j <= i, zero
// beyond, as far as the products below read: to the end of the row's square block of `block`
// columns. Where den is given, den[i] += the row's sum.
HWY_INLINE void clear_upper(
    std::size_t rows, std::size_t block, float* a, std::size_t ld, const float* shift, float* den) {
  const FloatTag d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < rows; ++i) {
    float* row = a + i * ld;
    const auto add = hn::Set(d, shift == nullptr ? 0.0F : shift[i]);
    auto sum = hn::Zero(d);
    std::size_t j = 0;
    for (; j + lanes <= i + 1; j += lanes) {
      const auto value = hn::Add(hn::LoadU(d, row + j), add);
      sum = hn::Add(sum, value);
      hn::StoreU(value, d, row + j);
    }
    if (j <= i) {
      const auto value =
          hn::IfThenElseZero(hn::FirstN(d, i + 1 - j), hn::Add(hn::LoadU(d, row + j), add));
      sum = hn::Add(sum, value);
      hn::StoreU(value, d, row + j);
      j += lanes;
    }
    for (const std::size_t end = std::min(rows, (i / block + 1) * block); j < end; j += lanes) {
      hn::StoreU(hn::Zero(d), d, row + j);
    }
    if (den != nullptr) {
      den[i] += sum_of_lanes(d, sum);
    }
  }
}

// The columns of one block of the products with a triangle below.
inline std::size_t triangle_block() {
  return kTileVectors * hn::Lanes(FloatTag());
}

// C[rows x N] += A B for a lower triangular A, cleared by blocks of kTileRows: each row of tiles
// stops at its diagonal.
HWY_INLINE void add_lower_times(std::size_t rows,
                                std::size_t N,
                                const float* a,
                                std::size_t lda,
                                TileRight b,
                                float* c,
                                std::size_t ldc) {
  for (std::size_t i = 0; i < rows; i += kTileRows) {
    const std::size_t tall = std::min(kTileRows, rows - i);
    tile_product(tall, N, i + tall, {a + i * lda, lda, 1}, b, {c + i * ldc, ldc, true});
  }
}

// C[rows x N] += A^T B for such an A: row j of A^T begins at column j.
HWY_INLINE void add_lower_transposed_times(std::size_t rows,
                                           std::size_t N,
                                           const float* a,
                                           std::size_t lda,
                                           TileRight b,
                                           float* c,
                                           std::size_t ldc) {
  for (std::size_t j = 0; j < rows; j += kTileRows) {
    const std::size_t tall = std::min(kTileRows, rows - j);
    tile_product(tall, N, rows - j, {a + j * lda + j, 1, lda}, {b.data + j * b.ld, b.ld},
                 {c + j * ldc, ldc, true});
  }
}

// C[M x rows] (+)= B A for an A cleared by blocks of triangle_block: column j of A begins at row j.
HWY_INLINE void times_lower(
    std::size_t M, std::size_t rows, TileLeft b, const float* a, std::size_t lda, TileOut c) {
  const std::size_t block = triangle_block();
  for (std::size_t j = 0; j < rows; j += block) {
    tile_product(M, std::min(block, rows - j), rows - j, {b.data + j * b.col, b.row, b.col},
                 {a + j * lda + j, lda}, {c.data + j, c.ld, c.accumulate});
  }
}

// C[M x rows] (+)= B A^T for such an A, given transposed: column i of A^T ends at row i.
HWY_INLINE void times_lower_transposed(
    std::size_t M, std::size_t rows, TileLeft b, const float* a_t, std::size_t lda, TileOut c) {
  const std::size_t block = triangle_block();
  for (std::size_t i = 0; i < rows; i += block) {
    tile_product(M, std::min(block, rows - i), std::min(i + block, rows), b, {a_t + i, lda},
                 {c.data + i, c.ld, c.accumulate});
  }
}

}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DARKFORMER_KERNELS_FEATURE_TRIANGLE_INL_H_
