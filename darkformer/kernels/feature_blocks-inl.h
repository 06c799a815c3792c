// The pieces of one block of feature attention, for one Highway target: pack, featurise, triangular
// products, rescale.
// SPDX-License-Identifier: Apache-2.0

#if defined(DARKFORMER_KERNELS_FEATURE_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DARKFORMER_KERNELS_FEATURE_BLOCKS_INL_H_
#undef DARKFORMER_KERNELS_FEATURE_BLOCKS_INL_H_
#else
#define DARKFORMER_KERNELS_FEATURE_BLOCKS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "darkformer/kernels/feature_attention.h"
#include "darkformer/kernels/simd_math-inl.h"
#include "darkformer/kernels/tile_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using FloatTag = hn::ScalableTag<float>;

// Ranges of the features in bits. A product of a kept query feature (lifted) and a kept key
// feature, scaled down by at most kRise, is a normal float: -76 + 64 - 96 - 16 - 1 > -126. So no
// choice of a block's scale can change a bit of it.
inline constexpr float kQueryRange = 76.0F;
inline constexpr float kKeyRange = 96.0F;
inline constexpr std::int32_t kQueryLift = 64;
inline constexpr std::int32_t kRise =
    16;  // a block ends before a key that raises the scale by more
inline constexpr std::int32_t kNoScale = -2'000'000'000;  // no key yet
inline constexpr float kLargestLog = 9.0e8F;  // scales stay int32 for every finite input

// A row stride: whole vectors, and off the powers of two that would map all rows to the same cache
// set.
// A row whose products all lie below this, in units of the running scale and the lifted query, is
// taken as vanished. It keeps every intermediate of the backward pass, at most 1 / (row sum),
// inside the range of float.
inline constexpr float kVanished = 0x1p-36F;

// A row stride: whole vectors, and off the powers of two that would map all rows to the same cache
// set.
inline std::size_t row_stride(std::size_t columns) {
  return (columns + 15) / 16 * 16 + 16;
}

// dst[i,d] <- src[i,d] - center[d] for `rows` rows; the columns up to the stride are zero.
HWY_INLINE void pack_rows(const float* src,
                          std::ptrdiff_t time,
                          std::ptrdiff_t element,
                          const float* center,
                          std::size_t rows,
                          std::size_t D,
                          float* dst,
                          std::size_t ld) {
  for (std::size_t i = 0; i < rows; ++i) {
    const float* from = src + static_cast<std::ptrdiff_t>(i) * time;
    float* to = dst + i * ld;
    for (std::size_t d = 0; d < D; ++d) {
      to[d] = from[static_cast<std::ptrdiff_t>(d) * element];
    }
    if (center != nullptr) {
      for (std::size_t d = 0; d < D; ++d) {
        to[d] -= center[d];
      }
    }
    std::fill(to + D, to + ld, 0.0F);
  }
}

// dst[d,i] <- src[i,d] from packed rows; the columns up to the stride are zero.
HWY_INLINE void pack_transposed(const float* src,
                                std::size_t src_ld,
                                std::size_t rows,
                                std::size_t D,
                                float* dst,
                                std::size_t ld) {
  transpose(rows, D, src, src_ld, dst, ld);
  for (std::size_t d = 0; d < D; ++d) {
    std::fill(dst + d * ld + rows, dst + d * ld + ld, 0.0F);
  }
}

// x[f,i] <- x[f,i] + bias[f] + offset[i] over whole vectors of columns; top[i] <- max over f.
HWY_INLINE void add_offsets(std::size_t F,
                            std::size_t columns,
                            const float* bias,
                            const float* offset,
                            float* x,
                            std::size_t ld,
                            float* top) {
  const FloatTag d;
  for (std::size_t i = 0; i < columns; i += hn::Lanes(d)) {
    const auto shift = hn::LoadU(d, offset + i);
    auto highest = hn::Set(d, -std::numeric_limits<float>::infinity());
    for (std::size_t f = 0; f < F; ++f) {
      float* at = x + f * ld + i;
      const auto value = hn::Add(hn::Add(hn::LoadU(d, at), hn::Set(d, bias[f])), shift);
      hn::StoreU(value, d, at);
      highest = hn::Max(highest, value);
    }
    hn::StoreU(highest, d, top + i);
  }
}

// 2^(x - scale), zero where round(x) < lowest. The fraction x - round(x) and the integer round(x) -
// scale are both exact.
template <class D, class V>
HWY_INLINE V feature(D d, V x, V lowest, V scale) {
  const hn::RebindToSigned<D> di;
  const V whole = hn::Round(x);
  const V exponent = hn::Sub(whole, scale);
  const V value =
      hn::Mul(exp2_fraction(d, hn::Sub(x, whole)), exp2_integer(d, hn::ConvertTo(di, exponent)));
  return hn::IfThenZeroElse(hn::Lt(whole, lowest), value);
}

// Columns are tokens: x[f,i] <- the feature, with lowest[i] and scale[i] per token. Pad columns
// need lowest = inf.
HWY_INLINE void features_by_column(std::size_t F,
                                   std::size_t columns,
                                   const float* lowest,
                                   const float* scale,
                                   float* x,
                                   std::size_t ld) {
  const FloatTag d;
  for (std::size_t i = 0; i < columns; i += hn::Lanes(d)) {
    const auto low = hn::LoadU(d, lowest + i);
    const auto unit = hn::LoadU(d, scale + i);
    for (std::size_t f = 0; f < F; ++f) {
      float* at = x + f * ld + i;
      hn::StoreU(feature(d, hn::LoadU(d, at), low, unit), d, at);
    }
  }
}

// The integer scale of a logarithm, whatever the input: finite, and exact in float.
HWY_INLINE std::int32_t integer_scale(float top) {
  const float bounded = std::min(std::max(top, -kLargestLog), kLargestLog);
  return static_cast<std::int32_t>(std::nearbyint(bounded));
}

// Rows are queries: x[i,f] <- 2^(x + bias - r_i + lift) with r_i the row's rounded maximum;
// scales[i] <- r_i; den[i] <- sum_f feature * z[f]. bias must be very low in the pad columns.
HWY_INLINE void query_features(std::size_t rows,
                               std::size_t F,
                               const float* bias,
                               const float* z,
                               float* x,
                               std::size_t ld,
                               std::int32_t* scales,
                               float* den) {
  const FloatTag d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < rows; ++i) {
    float* row = x + i * ld;
    auto highest = hn::Set(d, -std::numeric_limits<float>::infinity());
    for (std::size_t f = 0; f < F; f += lanes) {
      const auto value = hn::Add(hn::LoadU(d, row + f), hn::LoadU(d, bias + f));
      hn::StoreU(value, d, row + f);
      highest = hn::Max(highest, value);
    }
    scales[i] = integer_scale(max_of_lanes(d, highest));
    const auto top = static_cast<float>(scales[i]);
    const auto lowest = hn::Set(d, top - kQueryRange);
    const auto scale = hn::Set(d, top - static_cast<float>(kQueryLift));
    auto sum = hn::Zero(d);
    for (std::size_t f = 0; f < F; f += lanes) {
      const auto value = feature(d, hn::LoadU(d, row + f), lowest, scale);
      hn::StoreU(value, d, row + f);
      sum = hn::MulAdd(value, hn::LoadU(d, z + f), sum);
    }
    den[i] = sum_of_lanes(d, sum);
  }
}

// sums[f] <- sums[f] + sum_i x[f,i] over whole vectors of columns.
HWY_INLINE void add_row_sums(
    std::size_t F, std::size_t columns, const float* x, std::size_t ld, float* sums) {
  const FloatTag d;
  for (std::size_t f = 0; f < F; ++f) {
    auto sum = hn::Zero(d);
    for (std::size_t i = 0; i < columns; i += hn::Lanes(d)) {
      sum = hn::Add(sum, hn::LoadU(d, x + f * ld + i));
    }
    sums[f] += sum_of_lanes(d, sum);
  }
}

// The lower triangle of A[rows x rows] <- left right in square blocks, with zeros right of the
// diagonal as far as the products of triangles below read them: to the end of the row's block and
// of its row of tiles.
inline std::size_t triangle_block() {
  return 2 * hn::Lanes(FloatTag());
}

HWY_INLINE void lower_product(
    std::size_t rows, std::size_t K, TileLeft left, TileRight right, float* a, std::size_t ld) {
  const std::size_t block = triangle_block();
  for (std::size_t j = 0; j < rows; j += block) {
    tile_product(rows - j, std::min(block, rows - j), K,
                 {left.data + j * left.row, left.row, left.col}, {right.data + j, right.ld},
                 {a + j * ld + j, ld, false});
  }
  for (std::size_t i = 0; i < rows; ++i) {
    const std::size_t tile_end = (i / kTileRows + 1) * kTileRows,
                      block_end = (i / block + 1) * block;
    const std::size_t end = std::min(ld, (std::max(tile_end, block_end) + 15) / 16 * 16);
    std::fill(a + i * ld + i + 1, a + i * ld + end, 0.0F);
  }
}

// C[rows x N] += A B for a lower triangular A made by lower_product: each row of tiles stops at its
// diagonal.
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

// C[M x rows] (+)= B A for such an A: column j of A begins at row j.
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

// den[i] += sum over j <= i of A[i,j].
HWY_INLINE void add_lower_row_sums(std::size_t rows, const float* a, std::size_t ld, float* den) {
  const FloatTag d;
  for (std::size_t i = 0; i < rows; ++i) {
    auto sum = hn::Zero(d);
    for (std::size_t j = 0; j <= i; j += hn::Lanes(d)) {
      sum = hn::Add(sum, hn::LoadU(d, a + i * ld + j));
    }
    den[i] += sum_of_lanes(d, sum);
  }
}

// dphi[f,i] <- ln 2 * phi[f,i] * dphi[f,i]: the gradient of the base-2 logarithm. Zero where the
// feature is (pads may hold anything).
HWY_INLINE void log_gradients(
    std::size_t F, std::size_t columns, const float* phi, float* dphi, std::size_t ld) {
  const FloatTag d;
  const auto ln2 = hn::Set(d, 0.69314718F);
  for (std::size_t f = 0; f < F; ++f) {
    for (std::size_t i = 0; i < columns; i += hn::Lanes(d)) {
      const auto value = hn::LoadU(d, phi + f * ld + i);
      const auto gradient = hn::Mul(hn::Mul(value, hn::LoadU(d, dphi + f * ld + i)), ln2);
      hn::StoreU(hn::IfThenZeroElse(hn::Eq(value, hn::Zero(d)), gradient), d, dphi + f * ld + i);
    }
  }
}

// x[f,i] <- x[f,i] + left[f] * right[i]
HWY_INLINE void add_outer(std::size_t F,
                          std::size_t columns,
                          const float* left,
                          const float* right,
                          float* x,
                          std::size_t ld) {
  const FloatTag d;
  for (std::size_t f = 0; f < F; ++f) {
    const auto scale = hn::Set(d, left[f]);
    for (std::size_t i = 0; i < columns; i += hn::Lanes(d)) {
      hn::StoreU(hn::MulAdd(scale, hn::LoadU(d, right + i), hn::LoadU(d, x + f * ld + i)), d,
                 x + f * ld + i);
    }
  }
}

// sums[f] <- sums[f] + sum_i x[f,i] * weights[i]
HWY_INLINE void add_weighted_row_sums(std::size_t F,
                                      std::size_t columns,
                                      const float* x,
                                      std::size_t ld,
                                      const float* weights,
                                      float* sums) {
  const FloatTag d;
  for (std::size_t f = 0; f < F; ++f) {
    auto sum = hn::Zero(d);
    for (std::size_t i = 0; i < columns; i += hn::Lanes(d)) {
      sum = hn::MulAdd(hn::LoadU(d, x + f * ld + i), hn::LoadU(d, weights + i), sum);
    }
    sums[f] += sum_of_lanes(d, sum);
  }
}

// row <- row * factor
HWY_INLINE void scale_row(float* row, std::size_t count, float factor) {
  for (std::size_t i = 0; i < count; ++i) {
    row[i] *= factor;
  }
}

}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DARKFORMER_KERNELS_FEATURE_BLOCKS_INL_H_
