// Philox: published answers, the distribution, the same bits for every order and thread count.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/philox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <vector>

#include "darkformer/base/threads.h"

namespace darkformer::philox_test {
namespace {

using Words = std::array<std::uint32_t, 4>;

// The known answers that come with the Random123 library of the paper's authors.
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, CounterWordsAreElementIndexStream) {
  const Philox random(0x0000000200000001, 7, 5);
  const auto words = philox4x32({3, 1, 5, 7}, {1, 2});
  const std::uint64_t block = (std::uint64_t{1} << 32) + 3;
  EXPECT_EQ(random.bits(2 * block), words[0] | std::uint64_t{words[1]} << 32);
  EXPECT_EQ(random.bits(2 * block + 1), words[2] | std::uint64_t{words[3]} << 32);
}

// Frozen: a change of these bits would change every model drawn from a seed.
TEST(Philox, KeepsItsBits) {
  const Philox random(1, 2, 3);
  EXPECT_EQ(random.bits(0), 0x675011a724861dc7);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(random.uniform(1)), 0x3fc36da4e2271d84);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(random.normal(0)), 0x3fe8f249894e4a81);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(random.normal(1)), 0x3ff1942fb8b456df);
}

TEST(Philox, NormalIsBoxMullerOfTheTwoUniforms) {
  const Philox random(42);
  for (std::uint64_t pair = 0; pair < 100000; ++pair) {
    const double radius = std::sqrt(-2 * std::log(random.uniform(2 * pair)));
    const double angle = 2 * std::numbers::pi * random.uniform(2 * pair + 1);
    // A rounding of the angle (up to 2 pi) moves sin and cos by its size: 8 eps covers both sides.
    const double bound = 8 * std::numeric_limits<double>::epsilon() * std::max(radius, 1.0);
    ASSERT_NEAR(random.normal(2 * pair), radius * std::cos(angle), bound) << pair;
    ASSERT_NEAR(random.normal(2 * pair + 1), radius * std::sin(angle), bound) << pair;
  }
}

// Moments of n values: five standard errors each.
TEST(Philox, MomentsAreThoseOfTheNormalDistribution) {
  constexpr std::size_t kCount = 400000;
  std::vector<double> values(kCount);
  Philox(11, 1, 1).fill_normal(std::span(values));
  double m1 = 0;
  double m2 = 0;
  double m3 = 0;
  double m4 = 0;
  for (const double x : values) {
    m1 += x / kCount;
    m2 += x * x / kCount;
    m3 += x * x * x / kCount;
    m4 += x * x * x * x / kCount;
  }
  const double root = std::sqrt(static_cast<double>(kCount));
  EXPECT_NEAR(m1, 0, 5 / root);
  EXPECT_NEAR(m2, 1, 5 * std::sqrt(2.0) / root);
  EXPECT_NEAR(m3, 0, 5 * std::sqrt(15.0) / root);
  EXPECT_NEAR(m4, 3, 5 * std::sqrt(96.0) / root);
}

TEST(Philox, UniformFillsTheOpenIntervalEvenly) {
  constexpr std::size_t kCount = 400000;
  constexpr std::size_t kCells = 64;
  std::vector<double> values(kCount);
  Philox(3).fill_uniform(std::span(values));
  std::vector<int> cells(kCells);
  for (const double u : values) {
    ASSERT_GT(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++cells[static_cast<std::size_t>(u * kCells)];
  }
  const double expected = static_cast<double>(kCount) / kCells;
  for (const int count : cells) {
    EXPECT_NEAR(count, expected, 5 * std::sqrt(expected));
  }
}

TEST(Philox, OrderAndThreadsDoNotMatter) {
  const Philox random(5, 6, 7);
  std::vector<float> once(100001);
  set_threads(1);
  random.fill_normal(std::span(once), 3);
  for (const int threads : {2, 3, 5}) {
    set_threads(threads);
    std::vector<float> again(once.size(), NAN);
    random.fill_normal(std::span(again), 3);
    EXPECT_EQ(once, again);
  }
  EXPECT_EQ(once[100000], static_cast<float>(random.normal(100003)));
}

TEST(Philox, SeedStreamAndIndexGiveOtherNumbers) {
  const std::uint64_t here = Philox(1, 2, 3).bits(4);
  EXPECT_NE(here, Philox(2, 2, 3).bits(4));
  EXPECT_NE(here, Philox(1, 3, 3).bits(4));
  EXPECT_NE(here, Philox(1, 2, 4).bits(4));
  EXPECT_NE(here, Philox(1, 2, 3).bits(5));
  EXPECT_NE(here, Philox(1 + (std::uint64_t{1} << 32), 2, 3).bits(4));
}

TEST(Philox, BelowIsTheHighHalfOfTheProduct) {
  __extension__ using Wide = unsigned __int128;
  const Philox random(9);
  for (std::uint64_t element = 0; element < 2000; ++element) {
    for (const std::uint64_t bound : {std::uint64_t{1}, std::uint64_t{6}, random.bits(element)}) {
      const auto wide = static_cast<Wide>(random.bits(element)) * bound;
      ASSERT_EQ(random.below(element, bound), static_cast<std::uint64_t>(wide >> 64));
    }
  }
}

}  // namespace
}  // namespace darkformer::philox_test
