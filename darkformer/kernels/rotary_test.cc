// rotary equals its reference: y and dx, strides, offsets, scaling, threads, instruction sets.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/rotary.h"

#include <algorithm>
#include <type_traits>

#include "darkformer/base/tolerance.h"
#include "darkformer/kernels/kernel_testing.h"

namespace darkformer::kernels::rotary_test {
namespace {

constexpr double kBase = 10000.0;

// Two products of rounded factors: cos, sin, the product and the sum each round once.
double bound_of(const std::vector<float>& x, std::size_t D, std::size_t i) {
  const std::size_t other = i % D < D / 2 ? i + D / 2 : i - D / 2;
  return 2.0 * kEpsFloat * (std::abs(x[i]) + std::abs(x[other]));
}

void check(const RotaryShape& shape, double factor) {
  const std::size_t H = shape.H, T = shape.T, D = shape.D;
  const std::vector<double> frequencies = rotary_frequencies(D, kBase, factor);
  const RotaryTable table(frequencies, shape.start + T);
  const std::vector<float> x = random_values(shape.B * H * T * D, 1);
  std::vector<double> want(x.size());
  PoisonedBuffer<float> y(x.size()), dx(x.size());
  const auto bound = [&](std::size_t i) { return bound_of(x, D, i); };

  rotary(shape, table, contiguous_heads(x.data(), H, T, D), contiguous_heads(y.data(), H, T, D));
  rotary_ref(shape, frequencies, x.data(), 1.0, want.data());
  expect_near("y", y, want, bound);

  rotary_backward(shape, table, contiguous_heads(x.data(), H, T, D),
                  contiguous_heads(dx.data(), H, T, D));
  rotary_ref(shape, frequencies, x.data(), -1.0, want.data());
  expect_near("dx", dx, want, bound);
}

TEST(Rotary, EqualsReferenceForOddSizesOnEveryTarget) {
  on_every_target([] {
    for (const std::size_t D : {2, 6, 30, 32, 34, 64, 256}) {
      for (const std::size_t T : {1, 3, 8}) {
        check({2, 3, T, D}, 1.0);
        check({1, 1, T, D, 1000}, 8.0);
      }
    }
  });
}

TEST(Rotary, FarPositionsAreAsExactAsNearOnes) {
  check({1, 1, 2, 64, 131070}, 1.0);
}

TEST(Rotary, EqualsReferenceOnEveryThreadCount) {
  on_every_thread_count([] { check({2, 5, 40, 64}, 1.0); });
}

TEST(Rotary, TakesGivenPositions) {
  const std::vector<std::int64_t> positions = {7, 0, 7, 31};
  const RotaryShape shape{2, 2, 4, 12, 0, positions.data()};
  const std::vector<double> frequencies = rotary_frequencies(12, kBase);
  const RotaryTable table(frequencies, 32);
  const std::vector<float> x = random_values(192, 4);
  PoisonedBuffer<float> y(x.size());
  rotary(shape, table, contiguous_heads(x.data(), 2, 4, 12), contiguous_heads(y.data(), 2, 4, 12));
  std::vector<double> want(x.size());
  rotary_ref(shape, frequencies, x.data(), 1.0, want.data());
  expect_near("y", y, want, [&](std::size_t i) { return bound_of(x, 12, i); });
}

// (B,T,H,D) memory seen as (B,H,T,D), in place: what a projection gives and attention takes.
TEST(Rotary, StridedInPlaceEqualsContiguous) {
  const std::size_t B = 2, H = 3, T = 5, D = 18;
  const RotaryTable table(rotary_frequencies(D, kBase), T);
  const std::vector<float> x = random_values(B * H * T * D, 5);
  std::vector<float> contiguous(x.size()), strided(x.size());
  const auto view = [&](auto* data) {
    return HeadsView<std::remove_pointer_t<decltype(data)>>{
        data, static_cast<std::ptrdiff_t>(T * H * D), static_cast<std::ptrdiff_t>(D),
        static_cast<std::ptrdiff_t>(H * D), 1};
  };
  const auto rows = contiguous_heads(x.data(), H, T, D);
  for (std::size_t row = 0; row < B * H * T; ++row) {
    const std::size_t t = row % T, h = row / T % H, b = row / T / H;
    std::copy_n(rows.row(b, h, t), D, view(strided.data()).row(b, h, t));
  }
  rotary({B, H, T, D}, table, rows, contiguous_heads(contiguous.data(), H, T, D));
  rotary({B, H, T, D}, table, view(static_cast<const float*>(strided.data())),
         view(strided.data()));
  for (std::size_t row = 0; row < B * H * T; ++row) {
    const std::size_t t = row % T, h = row / T % H, b = row / T / H;
    for (std::size_t e = 0; e < D; ++e) {
      ASSERT_EQ(view(strided.data()).row(b, h, t)[e], contiguous[row * D + e]);
    }
  }
}

TEST(Rotary, OneTokenAtAnOffsetEqualsItsRowInTheSequence) {
  const std::size_t T = 9, D = 20;
  RotaryTable table(rotary_frequencies(D, kBase), 1);
  table.extend(T);
  EXPECT_GE(table.positions(), T);
  const std::vector<float> x = random_values(T * D, 6);
  std::vector<float> all(T * D), one(T * D);
  rotary({1, 1, T, D}, table, contiguous_heads(x.data(), 1, T, D),
         contiguous_heads(all.data(), 1, T, D));
  for (std::size_t t = 0; t < T; ++t) {
    rotary({1, 1, 1, D, t}, table, contiguous_heads(x.data() + t * D, 1, 1, D),
           contiguous_heads(one.data() + t * D, 1, 1, D));
  }
  EXPECT_EQ(all, one);
}

TEST(Rotary, FrequenciesAreThoseOfTheBase) {
  const std::vector<double> frequencies = rotary_frequencies(4, 100.0, 8.0);
  ASSERT_EQ(frequencies.size(), 2U);
  EXPECT_DOUBLE_EQ(frequencies[0], 1.0 / 8);
  EXPECT_DOUBLE_EQ(frequencies[1], 0.1 / 8);
}

}  // namespace
}  // namespace darkformer::kernels::rotary_test
