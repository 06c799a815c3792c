// Every kind of rotation by what its formula says at the ends and between.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "darkformer/model/rotary_positions.h"

namespace darkformer::rope_test {
namespace {

constexpr std::int64_t kSize = 16;

double theta(std::size_t pair, double base = 10000) {
  return std::pow(base, -2.0 * static_cast<double>(pair) / kSize);
}

void expect_close(double value, double wanted) {
  EXPECT_NEAR(value, wanted, 1e-14 * std::abs(wanted));
}

TEST(Rope, NamesAreThoseOfConfigs) {
  for (const RopeKind kind : {RopeKind::kDefault, RopeKind::kLinear, RopeKind::kProportional,
                              RopeKind::kLlama3, RopeKind::kYarn, RopeKind::kDynamic}) {
    EXPECT_EQ(find_rope_kind(rope_kind_name(kind)), kind);
  }
  EXPECT_FALSE(find_rope_kind("longrope"));
}

TEST(Rope, LinearStretchesAllPairs) {
  const auto angles = rope_frequencies({.kind = RopeKind::kLinear, .factor = 8}, kSize, 100);
  for (std::size_t i = 0; i < angles.size(); ++i) {
    expect_close(angles[i], theta(i) / 8);
  }
}

TEST(Rope, ProportionalTurnsTheFirstPairsOnly) {
  const auto angles =
      rope_frequencies({.kind = RopeKind::kProportional, .share = 0.25}, kSize, 100);
  ASSERT_EQ(angles.size(), 8);
  for (std::size_t i = 0; i < 8; ++i) {
    expect_close(angles[i], i < 2 ? theta(i) : 0.0);
  }
}

TEST(Rope, Llama3KeepsShortWavesAndStretchesLongOnes) {
  const RopeSpec rope{.kind = RopeKind::kLlama3, .factor = 8, .original = 64};
  const auto angles = rope_frequencies(rope, kSize, 100);
  int kept = 0, stretched = 0, blended = 0;
  for (std::size_t i = 0; i < angles.size(); ++i) {
    const double turns = 64 * theta(i) / (2 * std::numbers::pi);
    if (turns > 4) {
      expect_close(angles[i], theta(i));
      ++kept;
    } else if (turns < 1) {
      expect_close(angles[i], theta(i) / 8);
      ++stretched;
    } else {
      EXPECT_GT(angles[i], theta(i) / 8);
      EXPECT_LT(angles[i], theta(i));
      ++blended;
    }
  }
  EXPECT_GT(kept * stretched * blended, 0) << "all three bands";
}

TEST(Rope, YarnGoesFromKeptToStretched) {
  const RopeSpec rope{.kind = RopeKind::kYarn, .factor = 4, .original = 64};
  const auto angles = rope_frequencies(rope, kSize, 100);
  expect_close(angles.front(), theta(0));
  expect_close(angles.back(), theta(7) / 4);
  expect_close(yarn_amplitude(4, {}, {}), 0.1 * std::log(4.0) + 1);
  expect_close(yarn_amplitude(0.5, {}, {}), 1);
  expect_close(yarn_amplitude(4, 1.0, 2.0), (0.1 * std::log(4.0) + 1) / (0.2 * std::log(4.0) + 1));
}

TEST(Rope, DynamicIsTheDefaultUpToTheOriginalLength) {
  const RopeSpec rope{.kind = RopeKind::kDynamic, .factor = 2, .original = 64};
  EXPECT_EQ(rope_frequencies(rope, kSize, 64), rope_frequencies({}, kSize, 64));
  // 2 * 128 / 64 - 1 = 3
  const double base = 10000 * std::pow(3.0, 16.0 / 14);
  const auto angles = rope_frequencies(rope, kSize, 128);
  for (std::size_t i = 0; i < angles.size(); ++i) {
    expect_close(angles[i], theta(i, base));
  }
}

TEST(Rope, TablesOfDynamicAreOfTheirLength) {
  RotaryPositions positions({.kind = RopeKind::kDynamic, .factor = 2, .original = 64}, kSize);
  const auto near = positions.reaching(10), whole = positions.reaching(64);
  EXPECT_EQ(near->frequencies(), whole->frequencies());
  EXPECT_NE(positions.reaching(65)->frequencies(), whole->frequencies());
  EXPECT_EQ(positions.reaching(20), whole) << "a short sequence after a long one";
  EXPECT_EQ(positions.reaching(100)->positions(), 100);
}

}  // namespace
}  // namespace darkformer::rope_test
