// Sampling weights equal their reference on every target, for odd sizes and impossible tokens.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/sampling_weights.h"

#include <limits>

#include "darkformer/kernels/kernel_testing.h"

namespace darkformer::kernels::sampling_weights_test {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

void expect_reference(const std::vector<float>& x, float temperature) {
  std::vector<float> w(x.size(), std::nanf(""));
  std::vector<double> sums(weight_blocks(x.size()), std::nan("")), want(x.size()),
      want_sums(sums.size());
  sampling_weights(x.data(), x.size(), temperature, w.data(), sums.data());
  sampling_weights_ref(x.data(), x.size(), temperature, want.data(), want_sums.data());
  double largest_argument = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double argument = want[i] > 0.0 ? std::abs(std::log(want[i])) : 0.0;
    largest_argument = std::max(largest_argument, argument);
    EXPECT_NEAR(w[i], want[i], 2e-7 * (2.0 + argument) * want[i] + 1e-38) << i;
  }
  for (std::size_t b = 0; b < sums.size(); ++b) {
    EXPECT_NEAR(sums[b], want_sums[b], 2e-7 * (2.0 + largest_argument) * want_sums[b] + 1e-36) << b;
  }
}

TEST(SamplingWeights, EqualTheReferenceForOddSizesOnEveryTarget) {
  on_every_target([] {
    for (const std::size_t count : {1U, 2U, 15U, 17U, 255U, 256U, 257U, 1000U}) {
      std::vector<float> x = random_values(count, 5);
      for (float& value : x) {
        value *= 8.0F;
      }
      for (const float temperature : {0.3F, 1.0F, 2.5F}) {
        expect_reference(x, temperature);
      }
    }
  });
}

TEST(SamplingWeights, TokensThatCannotBeHaveNoWeight) {
  on_every_target([] {
    std::vector<float> x = random_values(300, 6), w(300);
    x[0] = x[7] = x[299] = kNever;
    expect_reference(x, 0.7F);
    std::vector<double> sums(2);
    sampling_weights(x.data(), x.size(), 0.7F, w.data(), sums.data());
    EXPECT_EQ(w[0] + w[7] + w[299], 0.0F);
  });
}

TEST(SamplingWeights, LargeLogitsStayFinite) {
  expect_reference({1e30F, 1e30F, -1e30F, 3.0F}, 1.0F);
}

TEST(SamplingWeights, WhatIsNoNumberShowsInTheSums) {
  on_every_target([] {
    for (const float broken : {std::nanf(""), -kNever}) {
      for (const std::size_t at : {0U, 16U, 299U}) {
        std::vector<float> x = random_values(300, 7), w(300);
        std::vector<double> sums(2);
        x[at] = broken;
        sampling_weights(x.data(), x.size(), 1.0F, w.data(), sums.data());
        EXPECT_TRUE(std::isnan(sums[0] + sums[1])) << broken << " at " << at;
      }
    }
  });
}

}  // namespace
}  // namespace darkformer::kernels::sampling_weights_test
