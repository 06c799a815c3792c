// Permutations: every element once, another order for another seed or epoch, no visible bias.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

namespace darkformer::permutation_test {
namespace {

std::vector<std::uint64_t> order(std::uint64_t size, const Philox& random) {
  const Permutation permutation(size, random);
  std::vector<std::uint64_t> elements;
  for (std::uint64_t i = 0; i < size; ++i) {
    elements.push_back(permutation(i));
  }
  return elements;
}

void expect_each_once(const std::vector<std::uint64_t>& elements) {
  std::vector<int> hits(elements.size());
  for (const std::uint64_t element : elements) {
    ASSERT_LT(element, elements.size());
    ASSERT_EQ(hits[element]++, 0) << element << " of " << elements.size();
  }
}

TEST(Permutation, EveryElementOnce) {
  for (std::uint64_t size = 1; size <= 300; ++size) {
    expect_each_once(order(size, Philox(size)));
  }
  for (const std::uint64_t size : {1023, 1024, 1025, 65535, 65536, 65537, 100003}) {
    expect_each_once(order(size, Philox(9)));
  }
}

TEST(Permutation, LargeRanges) {
  for (const int bits : {33, 48, 62}) {
    const std::uint64_t size = (std::uint64_t{1} << bits) - 12345;
    const Permutation permutation(size, Philox(3));
    std::vector<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < 100; ++i) {
      seen.push_back(permutation(i));
      EXPECT_LT(seen.back(), size);
    }
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end());
  }
}

TEST(Permutation, SeedStreamAndIndexGiveOtherOrders) {
  const auto base = order(1000, Philox(1, 2, 3));
  EXPECT_EQ(order(1000, Philox(1, 2, 3)), base);
  for (const auto& other :
       {order(1000, Philox(2, 2, 3)), order(1000, Philox(1, 3, 3)), order(1000, Philox(1, 2, 4))}) {
    int same = 0;
    for (std::size_t i = 0; i < base.size(); ++i) {
      same += base[i] == other[i] ? 1 : 0;
    }
    EXPECT_LT(same, 8) << "two random orders share about one place; P(8 or more) < 1e-5";
  }
}

// Pinned: a run must be able to go on after an update of the program.
TEST(Permutation, TheOrderIsPartOfTheFormat) {
  EXPECT_EQ(order(10, Philox(1, 2, 3)), (std::vector<std::uint64_t>{0, 7, 5, 2, 9, 6, 4, 3, 1, 8}));
}

// The element at each place is uniform over seeds: chi-square with size - 1 degrees of freedom
// each.
TEST(Permutation, NoPlaceIsBiased) {
  constexpr int kSeeds = 20000;
  for (const std::uint64_t size : {2, 3, 5, 8, 13}) {
    std::vector<std::vector<int>> counts(size, std::vector<int>(size));
    for (int seed = 0; seed < kSeeds; ++seed) {
      const auto elements = order(size, Philox(static_cast<std::uint64_t>(seed)));
      for (std::size_t place = 0; place < size; ++place) {
        ++counts[place][elements[place]];
      }
    }
    const double expected = static_cast<double>(kSeeds) / static_cast<double>(size);
    const double freedom = static_cast<double>(size - 1);
    for (const auto& row : counts) {
      double chi_square = 0;
      for (const int count : row) {
        chi_square += (count - expected) * (count - expected) / expected;
      }
      // Wilson and Hilferty: (chi^2 / k)^(1/3) is close to normal; five standard deviations above
      // its mean.
      const double variance = 2 / (9 * freedom);
      EXPECT_LT(std::cbrt(chi_square / freedom), 1 - variance + 5 * std::sqrt(variance))
          << "size " << size;
    }
  }
}

TEST(Permutation, NeighboursAreSpread) {
  constexpr std::uint64_t kSize = 10000;
  const auto elements = order(kSize, Philox(5));
  double distance = 0;
  for (std::size_t i = 1; i < kSize; ++i) {
    distance += std::abs(static_cast<double>(elements[i]) - static_cast<double>(elements[i - 1]));
  }
  // Mean n/3, standard deviation of one n/sqrt(18); five standard errors.
  EXPECT_NEAR(distance / kSize, kSize / 3.0, 5 * kSize / std::sqrt(18.0 * kSize) + 1);
}

}  // namespace
}  // namespace darkformer::permutation_test
