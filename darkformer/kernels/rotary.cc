// The table of rotations and their application to strided heads.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/rotary.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "darkformer/kernels/rotary.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

#include "darkformer/base/threads.h"
#include "darkformer/kernels/row_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {
namespace {

// (y0, y1) <- (x0 c - x1 s, x0 s + x1 c) with s <- direction s
void rotate_row(const float* x,
                const float* cosine,
                const float* sine,
                std::size_t half,
                float direction,
                float* y) {
  for_parts(half, [=](auto d, std::size_t i, std::size_t count) HWY_ATTR {
    const auto c = load_part(d, cosine + i, count);
    const auto s = hn::Mul(load_part(d, sine + i, count), hn::Set(d, direction));
    const auto x0 = load_part(d, x + i, count);
    const auto x1 = load_part(d, x + half + i, count);
    store_part(hn::NegMulAdd(x1, s, hn::Mul(x0, c)), d, y + i, count);
    store_part(hn::MulAdd(x0, s, hn::Mul(x1, c)), d, y + half + i, count);
  });
}

}  // namespace
}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace darkformer::kernels {
namespace {
HWY_EXPORT(rotate_row);

// A thread gets at least this many values: below it, waking it costs more than it brings.
constexpr std::size_t kValuesPerThread = 8192;

void rotate(const RotaryShape& shape,
            const RotaryTable& table,
            const HeadsView<const float>& x,
            const HeadsView<float>& y,
            float direction) {
  assert(shape.D == 2 * table.half() && x.element == 1 && y.element == 1);
  const std::size_t rows = shape.B * shape.H * shape.T;
  const std::size_t grain = kValuesPerThread / std::max<std::size_t>(1, shape.D) + 1;
  parallel_ranges(rows, grain, [&](std::size_t begin, std::size_t end) {
    const auto rotate_one = HWY_DYNAMIC_DISPATCH(rotate_row);
    for (std::size_t row = begin; row < end; ++row) {
      const std::size_t t = row % shape.T, h = row / shape.T % shape.H, b = row / shape.T / shape.H;
      const std::size_t position = shape.positions != nullptr
                                       ? static_cast<std::size_t>(shape.positions[t])
                                       : shape.start + t;
      assert(position < table.positions());
      rotate_one(x.row(b, h, t), table.cosine(position), table.sine(position), table.half(),
                 direction, y.row(b, h, t));
    }
  });
}

}  // namespace

std::vector<double> rotary_frequencies(std::size_t D, double base, double factor) {
  assert(D % 2 == 0);
  std::vector<double> frequencies(D / 2);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] =
        std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(D)) / factor;
  }
  return frequencies;
}

RotaryTable::RotaryTable(std::vector<double> frequencies, std::size_t positions, double amplitude)
    : frequencies_(std::move(frequencies)), amplitude_(amplitude) {
  extend(positions);
}

void RotaryTable::extend(std::size_t positions) {
  if (positions <= positions_) {
    return;
  }
  positions = std::max(positions, 2 * positions_);  // a token at a time stays linear in all
  float* values = values_.reserve(positions * 2 * half());
  parallel_ranges(positions, 64, [&](std::size_t begin, std::size_t end) {
    for (std::size_t p = begin; p < end; ++p) {
      for (std::size_t i = 0; i < half(); ++i) {
        const double angle = static_cast<double>(p) * frequencies_[i];
        values[p * 2 * half() + i] = static_cast<float>(amplitude_ * std::cos(angle));
        values[(p * 2 + 1) * half() + i] = static_cast<float>(amplitude_ * std::sin(angle));
      }
    }
  });
  positions_ = positions;
}

void rotary(const RotaryShape& shape,
            const RotaryTable& table,
            const HeadsView<const float>& x,
            const HeadsView<float>& y) {
  rotate(shape, table, x, y, 1.0F);
}

void rotary_backward(const RotaryShape& shape,
                     const RotaryTable& table,
                     const HeadsView<const float>& dy,
                     const HeadsView<float>& dx) {
  rotate(shape, table, dy, dx, -1.0F);
}

}  // namespace darkformer::kernels
#endif  // HWY_ONCE
