// Vectorised RMSNorm: two passes over a row that stays in cache.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/rms_norm.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "darkformer/kernels/rms_norm.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

#include "darkformer/base/aligned_buffer.h"
#include "darkformer/base/threads.h"
#include "darkformer/kernels/row_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {
namespace {

float inverse_rms(const float* x, std::size_t E, float epsilon) {
  const float squares = sum_over(E, [x](auto d, std::size_t e, std::size_t count) HWY_ATTR {
    const auto v = load_part(d, x + e, count);
    return hn::Mul(v, v);
  });
  return 1.0F / std::sqrt(squares / static_cast<float>(E) + epsilon);
}

// y <- x r (unit + w)
void norm_row(const RmsNormShape& shape, const float* x, const float* w, float* y) {
  const float r = inverse_rms(x, shape.E, shape.epsilon), unit = shape.unit;
  for_parts(shape.E, [=](auto d, std::size_t e, std::size_t count) HWY_ATTR {
    const auto scaled = hn::Mul(load_part(d, x + e, count), hn::Set(d, r));
    const auto gain = hn::Add(load_part(d, w + e, count), hn::Set(d, unit));
    store_part(hn::Mul(scaled, gain), d, y + e, count);
  });
}

void norm_rows(const RmsNormShape& shape,
               const float* x,
               const float* w,
               float* y,
               std::size_t begin,
               std::size_t end) {
  for (std::size_t row = begin; row < end; ++row) {
    norm_row(shape, x + row * shape.E, w, y + row * shape.E);
  }
}

// One row of the backward pass; dx is null or the row of dx, dw is null or added to.
void backward_row(const RmsNormShape& shape,
                  const float* x,
                  const float* w,
                  const float* dy,
                  float* dx,
                  float* dw) {
  const std::size_t E = shape.E;
  const float r = inverse_rms(x, E, shape.epsilon), unit = shape.unit;
  if (dw != nullptr) {
    // dw <- dw + dy x r
    for_parts(E, [=](auto d, std::size_t e, std::size_t count) HWY_ATTR {
      const auto scaled = hn::Mul(load_part(d, x + e, count), hn::Set(d, r));
      const auto sum = hn::MulAdd(load_part(d, dy + e, count), scaled, load_part(d, dw + e, count));
      store_part(sum, d, dw + e, count);
    });
  }
  if (dx == nullptr) {
    return;
  }
  const auto gradient = [=](auto d, std::size_t e, std::size_t count) HWY_ATTR {
    return hn::Mul(load_part(d, dy + e, count),
                   hn::Add(load_part(d, w + e, count), hn::Set(d, unit)));
  };
  // c <- r^2 mean_e(g x)
  const float inner = sum_over(E, [=](auto d, std::size_t e, std::size_t count) HWY_ATTR {
    return hn::Mul(gradient(d, e, count), load_part(d, x + e, count));
  });
  const float c = inner / static_cast<float>(E) * r * r;
  // dx <- r (g - x c)
  for_parts(E, [=](auto d, std::size_t e, std::size_t count) HWY_ATTR {
    const auto v = load_part(d, x + e, count);
    const auto difference = hn::NegMulAdd(v, hn::Set(d, c), gradient(d, e, count));
    store_part(hn::Mul(difference, hn::Set(d, r)), d, dx + e, count);
  });
}

// Rows [begin, end), their share of dw in `dw` (E), which starts here at zero.
void backward_rows(const RmsNormShape& shape,
                   const float* x,
                   const float* w,
                   const float* dy,
                   const RmsNormGradients& gradients,
                   std::size_t begin,
                   std::size_t end) {
  if (gradients.dw != nullptr) {
    std::fill(gradients.dw, gradients.dw + shape.E, 0.0F);
  }
  for (std::size_t row = begin; row < end; ++row) {
    const std::size_t at = row * shape.E;
    float* dx = gradients.dx == nullptr ? nullptr : gradients.dx + at;
    backward_row(shape, x + at, w, dy + at, dx, gradients.dw);
  }
}

}  // namespace
}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace darkformer::kernels {
namespace {
HWY_EXPORT(norm_rows);
HWY_EXPORT(backward_rows);

// A thread gets at least this many values: below it, waking it costs more than it brings.
constexpr std::size_t kValuesPerThread = 8192;
// Blocks of rows with their own share of dw: enough for many threads, few enough to add up.
constexpr std::size_t kMostBlocks = 64;
constexpr std::size_t kLeastBlockRows = 16;

// dw[e] <- sum over blocks of shares[block][e]
void add_shares(const float* shares, std::size_t blocks, std::size_t E, float* dw) {
  std::copy(shares, shares + E, dw);
  for (std::size_t block = 1; block < blocks; ++block) {
    for (std::size_t e = 0; e < E; ++e) {
      dw[e] += shares[block * E + e];
    }
  }
}
}  // namespace

void rms_norm(const RmsNormShape& shape, const float* x, const float* w, float* y) {
  const std::size_t grain = kValuesPerThread / std::max<std::size_t>(1, shape.E) + 1;
  parallel_ranges(shape.rows, grain, [&](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(norm_rows)(shape, x, w, y, begin, end);
  });
}

void rms_norm_backward(const RmsNormShape& shape,
                       const float* x,
                       const float* w,
                       const float* dy,
                       const RmsNormGradients& gradients) {
  const std::size_t E = shape.E;
  const bool want_dw = gradients.dw != nullptr;
  if (shape.rows == 0) {
    std::fill(gradients.dw, gradients.dw + (want_dw ? E : 0), 0.0F);
    return;
  }
  const std::size_t block_rows =
      std::max(kLeastBlockRows, (shape.rows + kMostBlocks - 1) / kMostBlocks);
  const std::size_t blocks = (shape.rows + block_rows - 1) / block_rows;
  AlignedBuffer<float> shares(want_dw ? blocks * E : 0);
  parallel_for(blocks, [&](std::size_t block) {
    const RmsNormGradients part{gradients.dx, want_dw ? shares.data() + block * E : nullptr};
    HWY_DYNAMIC_DISPATCH(backward_rows)
    (shape, x, w, dy, part, block * block_rows, std::min(shape.rows, (block + 1) * block_rows));
  });
  if (want_dw) {
    add_shares(shares.data(), blocks, E, gradients.dw);
  }
}

}  // namespace darkformer::kernels
#endif  // HWY_ONCE
