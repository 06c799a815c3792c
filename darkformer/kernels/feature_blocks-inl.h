// The pieces of one block of feature attention, for one Highway target: pack, featurise, sum,
// rescale.
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
inline constexpr float kQueryLift = 64.0F;
inline constexpr std::int32_t kRise =
    16;  // a block ends before a key that raises the scale by more
inline constexpr std::int32_t kNoScale = -2'000'000'000;  // no key yet
inline constexpr float kLargestLog = 9.0e8F;  // scales stay int32 for every finite input

// A row whose products all lie below this, in units of the running scale and the lifted query, is
// taken as vanished. It keeps every intermediate of the backward pass, at most 1 / (row sum),
// inside the range of float.
inline constexpr float kVanished = 0x1p-36F;

// A row stride: whole vectors, and off the powers of two that would map all rows to the same cache
// set.
inline std::size_t row_stride(std::size_t columns) {
  return (columns + 15) / 16 * 16 + 16;
}

inline std::size_t whole_vectors(std::size_t count) {
  const std::size_t lanes = hn::Lanes(FloatTag());
  return (count + lanes - 1) / lanes * lanes;
}

// to[d] <- from[d] - center[d]
HWY_INLINE void copy_row(const float* from, const float* center, std::size_t D, float* to) {
  const FloatTag tag;
  std::size_t d = 0;
  for (; d + hn::Lanes(tag) <= D; d += hn::Lanes(tag)) {
    const auto value = hn::LoadU(tag, from + d);
    hn::StoreU(center == nullptr ? value : hn::Sub(value, hn::LoadU(tag, center + d)), tag, to + d);
  }
  for (; d < D; ++d) {
    to[d] = from[d] - (center == nullptr ? 0.0F : center[d]);
  }
}

// dst[i,d] <- src[i,d] - center[d] for `rows` rows; the columns up to whole vectors are zero.
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
    if (element == 1) {
      copy_row(from, center, D, to);
    } else {
      for (std::size_t d = 0; d < D; ++d) {
        to[d] =
            from[static_cast<std::ptrdiff_t>(d) * element] - (center == nullptr ? 0.0F : center[d]);
      }
    }
    for (std::size_t d = D; d < whole_vectors(D); ++d) {
      to[d] = 0.0F;
    }
  }
}

// dst[d,i] <- src[i,d] from packed rows; the columns up to whole vectors are zero.
HWY_INLINE void pack_transposed(const float* src,
                                std::size_t src_ld,
                                std::size_t rows,
                                std::size_t D,
                                float* dst,
                                std::size_t ld) {
  transpose(rows, D, src, src_ld, dst, ld);
  if (rows < whole_vectors(rows)) {
    for (std::size_t d = 0; d < D; ++d) {
      std::fill(dst + d * ld + rows, dst + d * ld + whole_vectors(rows), 0.0F);
    }
  }
}

// Calls body.template operator()<n>(i) for blocks of n vectors of columns, several at a time: one
// chain of additions or maxima per vector hides their latency.
template <class Body>
HWY_INLINE void for_column_blocks(std::size_t columns, const Body& body) {
  const std::size_t lanes = hn::Lanes(FloatTag());
  std::size_t i = 0;
  for (; i + kTileVectors * lanes <= whole_vectors(columns); i += kTileVectors * lanes) {
    body.template operator()<kTileVectors>(i);
  }
  for (; i < columns; i += lanes) {
    body.template operator()<1>(i);
  }
}

// What turns products into logarithms and these into features: x[f,i] + bias[f] + offset[i], then
// 2^(that - unit[i]), or 0 where its rounding is below lowest[i] (infinity in pad columns).
struct FeatureColumns {
  const float* bias;    // (F)
  const float* offset;  // (columns)
  const float* lowest;
  const float* unit;
};

// top[i] <- max over f of x[f,i] + bias[f] + offset[i].
HWY_INLINE void column_tops(std::size_t F,
                            std::size_t columns,
                            const FeatureColumns& c,
                            const float* x,
                            std::size_t ld,
                            float* top) {
  const FloatTag d;
  for_column_blocks(columns, [&]<std::size_t kVectors>(std::size_t i) HWY_ATTR {
    hn::Vec<FloatTag> offset[kVectors], highest[kVectors];
#pragma GCC unroll 4
    for (std::size_t j = 0; j < kVectors; ++j) {
      offset[j] = hn::LoadU(d, c.offset + i + j * hn::Lanes(d));
      highest[j] = hn::Set(d, -std::numeric_limits<float>::infinity());
    }
    for (std::size_t f = 0; f < F; ++f) {
      const auto bias = hn::Set(d, c.bias[f]);
#pragma GCC unroll 4
      for (std::size_t j = 0; j < kVectors; ++j) {
        const auto value = hn::LoadU(d, x + f * ld + i + j * hn::Lanes(d));
        highest[j] = hn::Max(highest[j], hn::Add(hn::Add(value, bias), offset[j]));
      }
    }
#pragma GCC unroll 4
    for (std::size_t j = 0; j < kVectors; ++j) {
      hn::StoreU(highest[j], d, top + i + j * hn::Lanes(d));
    }
  });
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

// x[f,i] <- the feature of x[f,i]; where z is given, sums[i] <- sum_f feature * z[f].
template <bool kSums>
HWY_INLINE void features_by_column(std::size_t F,
                                   std::size_t columns,
                                   const FeatureColumns& c,
                                   float* x,
                                   std::size_t ld,
                                   const float* z,
                                   float* sums) {
  const FloatTag d;
  for_column_blocks(columns, [&]<std::size_t kVectors>(std::size_t i) HWY_ATTR {
    hn::Vec<FloatTag> offset[kVectors], lowest[kVectors], unit[kVectors], sum[kVectors];
#pragma GCC unroll 4
    for (std::size_t j = 0; j < kVectors; ++j) {
      const std::size_t at = i + j * hn::Lanes(d);
      offset[j] = hn::LoadU(d, c.offset + at);
      lowest[j] = hn::LoadU(d, c.lowest + at);
      unit[j] = hn::LoadU(d, c.unit + at);
      sum[j] = hn::Zero(d);
    }
    for (std::size_t f = 0; f < F; ++f) {
      const auto bias = hn::Set(d, c.bias[f]);
#pragma GCC unroll 4
      for (std::size_t j = 0; j < kVectors; ++j) {
        float* at = x + f * ld + i + j * hn::Lanes(d);
        const auto log = hn::Add(hn::Add(hn::LoadU(d, at), bias), offset[j]);
        const auto value = feature(d, log, lowest[j], unit[j]);
        hn::StoreU(value, d, at);
        if constexpr (kSums) {
          sum[j] = hn::MulAdd(value, hn::Set(d, z[f]), sum[j]);
        }
      }
    }
    if constexpr (kSums) {
#pragma GCC unroll 4
      for (std::size_t j = 0; j < kVectors; ++j) {
        hn::StoreU(sum[j], d, sums + i + j * hn::Lanes(d));
      }
    }
  });
}

// The integer scale of a logarithm, whatever the input: finite, and exact in float.
HWY_INLINE std::int32_t integer_scale(float top) {
  const float bounded = std::min(std::max(top, -kLargestLog), kLargestLog);
  return static_cast<std::int32_t>(std::nearbyint(bounded));
}

// The same for columns: scale[i] <- the integer scale of top[i].
HWY_INLINE void integer_scales(std::size_t columns, const float* top, float* scale) {
  const FloatTag d;
  for (std::size_t i = 0; i < columns; i += hn::Lanes(d)) {
    const auto bounded =
        hn::Min(hn::Max(hn::LoadU(d, top + i), hn::Set(d, -kLargestLog)), hn::Set(d, kLargestLog));
    hn::StoreU(hn::Round(bounded), d, scale + i);
  }
}

// What query_features finds out about each column.
struct QueryColumns {
  explicit QueryColumns(std::size_t columns)
      : zeros(columns),
        top(columns),
        scales(columns),
        lowest(columns),
        unit(columns),
        den(columns) {
    std::fill(zeros.data(), zeros.data() + columns, 0.0F);
  }
  AlignedBuffer<float> zeros, top, scales, lowest, unit;
  AlignedBuffer<float> den;  // sum_f feature * z[f]
};

// x[f,i] <- 2^(x + bias - r_i + lift) with r_i the column's rounded maximum. Without z no den.
HWY_INLINE void query_features(std::size_t F,
                               std::size_t queries,
                               const float* bias,
                               const float* z,
                               float* x,
                               std::size_t ld,
                               QueryColumns& q) {
  const FloatTag d;
  const FeatureColumns columns = {bias, q.zeros.data(), q.lowest.data(), q.unit.data()};
  column_tops(F, queries, columns, x, ld, q.top.data());
  integer_scales(queries, q.top.data(), q.scales.data());
  for (std::size_t i = 0; i < queries; i += hn::Lanes(d)) {
    const auto scale = hn::LoadU(d, q.scales.data() + i);
    hn::StoreU(hn::Sub(scale, hn::Set(d, kQueryRange)), d, q.lowest.data() + i);
    hn::StoreU(hn::Sub(scale, hn::Set(d, kQueryLift)), d, q.unit.data() + i);
  }
  std::fill(q.lowest.data() + queries, q.lowest.data() + whole_vectors(queries),
            std::numeric_limits<float>::infinity());
  if (z == nullptr) {
    features_by_column<false>(F, queries, columns, x, ld, nullptr, nullptr);
  } else {
    features_by_column<true>(F, queries, columns, x, ld, z, q.den.data());
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

// dphi[f,i] <- ln 2 * phi[f,i] * (dphi[f,i] + left[f] * right[i]): the gradient of the base-2
// logarithm; sums[i] <- its sum over f. Zero where the feature is (pads may hold anything).
HWY_INLINE void log_gradients(std::size_t F,
                              std::size_t columns,
                              const float* phi,
                              const float* left,
                              const float* right,
                              std::size_t ld,
                              float* dphi,
                              float* sums) {
  const FloatTag d;
  for_column_blocks(columns, [&]<std::size_t kVectors>(std::size_t i) HWY_ATTR {
    hn::Vec<FloatTag> outer[kVectors], sum[kVectors];
#pragma GCC unroll 4
    for (std::size_t j = 0; j < kVectors; ++j) {
      outer[j] = hn::LoadU(d, right + i + j * hn::Lanes(d));
      sum[j] = hn::Zero(d);
    }
    for (std::size_t f = 0; f < F; ++f) {
      const auto scale = hn::Set(d, left[f]);
#pragma GCC unroll 4
      for (std::size_t j = 0; j < kVectors; ++j) {
        const std::size_t at = f * ld + i + j * hn::Lanes(d);
        const auto value = hn::LoadU(d, phi + at);
        const auto gradient = hn::MulAdd(scale, outer[j], hn::LoadU(d, dphi + at));
        const auto log = hn::IfThenZeroElse(
            hn::Eq(value, hn::Zero(d)), hn::Mul(hn::Mul(value, gradient), hn::Set(d, 0.69314718F)));
        hn::StoreU(log, d, dphi + at);
        sum[j] = hn::Add(sum[j], log);
      }
    }
#pragma GCC unroll 4
    for (std::size_t j = 0; j < kVectors; ++j) {
      hn::StoreU(sum[j], d, sums + i + j * hn::Lanes(d));
    }
  });
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
  const FloatTag d;
  const auto by = hn::Set(d, factor);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    hn::StoreU(hn::Mul(hn::LoadU(d, row + i), by), d, row + i);
  }
  for (; i < count; ++i) {
    row[i] *= factor;
  }
}

// sum_i a[i] b[i] over whole vectors.
HWY_INLINE float dot_rows(const float* a, const float* b, std::size_t count) {
  const FloatTag d;
  auto sum = hn::Zero(d);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    sum = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
  }
  return sum_of_lanes(d, sum);
}

// sums[d] <- sums[d] + sum_i x[i,d] over whole vectors of columns.
HWY_INLINE void add_column_sums(
    std::size_t rows, std::size_t D, const float* x, std::size_t ld, float* sums) {
  const FloatTag d;
  for_column_blocks(D, [&]<std::size_t kVectors>(std::size_t at) HWY_ATTR {
    hn::Vec<FloatTag> sum[kVectors];
#pragma GCC unroll 4
    for (std::size_t j = 0; j < kVectors; ++j) {
      sum[j] = hn::LoadU(d, sums + at + j * hn::Lanes(d));
    }
    for (std::size_t i = 0; i < rows; ++i) {
#pragma GCC unroll 4
      for (std::size_t j = 0; j < kVectors; ++j) {
        sum[j] = hn::Add(sum[j], hn::LoadU(d, x + i * ld + at + j * hn::Lanes(d)));
      }
    }
#pragma GCC unroll 4
    for (std::size_t j = 0; j < kVectors; ++j) {
      hn::StoreU(sum[j], d, sums + at + j * hn::Lanes(d));
    }
  });
}

}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DARKFORMER_KERNELS_FEATURE_BLOCKS_INL_H_
