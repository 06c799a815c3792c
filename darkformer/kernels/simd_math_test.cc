// The stated error bounds of simd_math, and tile_product against a plain triple loop, on every
// target of this machine.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "darkformer/kernels/simd_math_test.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

#include "darkformer/base/tolerance.h"
#include "darkformer/kernels/simd_math-inl.h"
#include "darkformer/kernels/tile_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {

void exp_of(const float* x, float* y, std::size_t count) {
  const hn::ScalableTag<float> d;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::StoreU(exp(d, hn::LoadU(d, x + i)), d, y + i);
  }
}

void tanh_of(const float* x, float* y, std::size_t count) {
  const hn::ScalableTag<float> d;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::StoreU(tanh(d, hn::LoadU(d, x + i)), d, y + i);
  }
}

void exp2_of(const float* x, float* y, std::size_t count) {
  const hn::ScalableTag<float> d;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::StoreU(exp2_fraction(d, hn::LoadU(d, x + i)), d, y + i);
  }
}

void product_of(std::size_t M,
                std::size_t N,
                std::size_t K,
                const float* a,
                bool transposed,
                const float* b,
                float* c,
                std::size_t ld,
                bool accumulate) {
  const TileLeft left = transposed ? TileLeft{a, 1, M} : TileLeft{a, K, 1};
  tile_product(M, N, K, left, {b, ld}, {c, ld, accumulate});
}

}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace darkformer::kernels::simd_math_test {
namespace {
HWY_EXPORT(exp_of);
HWY_EXPORT(exp2_of);
HWY_EXPORT(tanh_of);
HWY_EXPORT(product_of);

// Runs the body once for each target that this machine supports.
template <class Body>
void on_every_target(const Body& body) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    SCOPED_TRACE(hwy::TargetName(target));
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
}

TEST(SimdMath, ExpIsWithinItsBound) {
  constexpr std::size_t kCount = 1 << 16;
  std::vector<float> x(kCount), y(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    x[i] = -87.3F + 176.0F * static_cast<float>(i) / kCount;
  }
  on_every_target([&] {
    HWY_DYNAMIC_DISPATCH(exp_of)(x.data(), y.data(), kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      const double exact = std::exp(static_cast<double>(x[i]));
      ASSERT_NEAR(y[i], exact, 2e-7 * exact) << x[i];
    }
  });
}

TEST(SimdMath, ExpAtTheEdges) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x = {-inf, -1e9F, -105.0F, 0.0F, 89.0F, 1e9F, inf, std::nanf("")};
  x.resize(16);
  std::vector<float> y(16);
  on_every_target([&] {
    HWY_DYNAMIC_DISPATCH(exp_of)(x.data(), y.data(), 16);
    EXPECT_EQ(y[0], 0.0F);
    EXPECT_EQ(y[1], 0.0F);
    EXPECT_EQ(y[2], 0.0F);
    EXPECT_EQ(y[3], 1.0F);
    EXPECT_EQ(y[4], inf);
    EXPECT_EQ(y[5], inf);
    EXPECT_EQ(y[6], inf);
    EXPECT_TRUE(std::isnan(y[7]));
  });
}

TEST(SimdMath, Exp2FractionIsWithinItsBound) {
  constexpr std::size_t kCount = 1 << 16;
  std::vector<float> x(kCount), y(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    x[i] = -0.5F + static_cast<float>(i) / (kCount - 1);
  }
  on_every_target([&] {
    HWY_DYNAMIC_DISPATCH(exp2_of)(x.data(), y.data(), kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      const double exact = std::exp2(static_cast<double>(x[i]));
      ASSERT_NEAR(y[i], exact, 1.2e-7 * exact) << x[i];
    }
  });
}

TEST(SimdMath, TanhIsWithinItsBound) {
  constexpr std::size_t kCount = 1 << 17;
  std::vector<float> x(kCount), y(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {  // both signs, 1e-9 ... 95 in equal ratios
    const double size = std::exp(-20.7 + 25.3 * static_cast<double>(i / 2) / (kCount / 2));
    x[i] = static_cast<float>(i % 2 == 0 ? size : -size);
  }
  x[0] = 0.0F;
  x[2] = std::numeric_limits<float>::infinity();
  x[3] = -x[2];
  on_every_target([&] {
    HWY_DYNAMIC_DISPATCH(tanh_of)(x.data(), y.data(), kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      const double exact = std::tanh(static_cast<double>(x[i]));
      ASSERT_NEAR(y[i], exact, 3e-7 * std::abs(exact)) << x[i];
    }
    x[1] = std::nanf("");
    HWY_DYNAMIC_DISPATCH(tanh_of)(x.data(), y.data(), 16);
    EXPECT_TRUE(std::isnan(y[1]));
    x[1] = 1.0F;
  });
}

struct ProductCase {
  std::size_t M, N, K;
  bool transposed, accumulate;
};

void check_product(const ProductCase& p) {
  const std::size_t ld = (p.N + 15) / 16 * 16 + 16;
  std::mt19937 generator(7);
  std::normal_distribution<float> normal;
  std::vector<float> a(p.M * p.K), b(p.K * ld), c(p.M * ld);
  for (auto* values : {&a, &b, &c}) {
    for (float& value : *values) {
      value = normal(generator);
    }
  }
  const std::vector<float> before = c;
  if (!p.accumulate) {
    std::fill(c.begin(), c.end(), std::nanf(""));
  }
  HWY_DYNAMIC_DISPATCH(product_of)
  (p.M, p.N, p.K, a.data(), p.transposed, b.data(), c.data(), ld, p.accumulate);
  for (std::size_t i = 0; i < p.M; ++i) {
    for (std::size_t j = 0; j < p.N; ++j) {
      double exact = p.accumulate ? before[i * ld + j] : 0.0, size = std::abs(exact);
      for (std::size_t k = 0; k < p.K; ++k) {
        const double term =
            static_cast<double>(a[p.transposed ? k * p.M + i : i * p.K + k]) * b[k * ld + j];
        exact += term;
        size += std::abs(term);
      }
      ASSERT_NEAR(c[i * ld + j], exact, sum_bound(kEpsFloat, p.K, size)) << i << ' ' << j;
    }
  }
}

TEST(TileProduct, EqualsThePlainLoop) {
  on_every_target([] {
    for (const std::size_t M : {1, 2, 5, 11, 12, 13, 64}) {
      for (const std::size_t N : {1, 7, 16, 31, 33, 64}) {
        for (const std::size_t K : {0, 1, 17, 64}) {
          for (const bool transposed : {false, true}) {
            check_product({M, N, K, transposed, K % 2 == 0});
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace darkformer::kernels::simd_math_test
#endif  // HWY_ONCE
