// squared_norm equals its reference and keeps its bits at every thread count.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/squared_norm.h"

#include <limits>

#include "darkformer/kernels/kernel_testing.h"

namespace darkformer::kernels::squared_norm_test {
namespace {

TEST(SquaredNorm, EqualsReferenceForOddSizesOnEveryTarget) {
  const std::vector<float> x = random_values((1U << 16U) + 9, 1);
  on_every_target([&] {
    for (const std::size_t count : {0U, 1U, 3U, 31U, 32U, 33U, (1U << 15U) - 1, 1U << 15U,
                                    (1U << 15U) + 1, (1U << 16U) + 9}) {
      const double want = squared_norm_ref(x.data(), count);
      EXPECT_NEAR(squared_norm(x.data(), count), want, 1e-13 * want) << count;
    }
  });
}

TEST(SquaredNorm, ThreadsDoNotChangeABit) {
  const std::vector<float> x = random_values(300001, 2);
  set_threads(1);
  const double alone = squared_norm(x.data(), x.size());
  on_every_thread_count([&] { EXPECT_EQ(squared_norm(x.data(), x.size()), alone); });
}

TEST(SquaredNorm, RangeAndNonFiniteValues) {
  std::vector<float> x(100, 1e30F);
  EXPECT_NEAR(squared_norm(x.data(), x.size()), 1e62, 1e56);  // beyond float32, 1e30F is rounded
  x.assign(100, 1e-30F);
  EXPECT_NEAR(squared_norm(x.data(), x.size()), 1e-58, 1e-64);
  x[57] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isinf(squared_norm(x.data(), x.size())));
  x[58] = std::nanf("");
  EXPECT_TRUE(std::isnan(squared_norm(x.data(), x.size())));
}

}  // namespace
}  // namespace darkformer::kernels::squared_norm_test
