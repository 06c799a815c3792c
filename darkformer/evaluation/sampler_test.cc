// Sampling: greedy, the laws of temperature, top-k and top-p, seeds.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "darkformer/base/error.h"

namespace darkformer::sampler_test {
namespace {

const std::vector<float> kLogits = {0.5F, 2.0F, -1.0F, 2.0F, 1.0F};

std::vector<double> shares(const SamplerOptions& options, int picks = 40'000) {
  Sampler sampler(options);
  std::vector<double> counts(kLogits.size());
  for (int i = 0; i < picks; ++i) {
    counts[static_cast<std::size_t>(sampler.pick(kLogits))] += 1.0 / picks;
  }
  return counts;
}

// The exact probabilities of the kept ids.
std::vector<double> law(double temperature, const std::vector<std::size_t>& kept) {
  std::vector<double> p(kLogits.size());
  double total = 0;
  for (const std::size_t i : kept) {
    p[i] = std::exp(kLogits[i] / temperature);
    total += p[i];
  }
  for (double& value : p) {
    value /= total;
  }
  return p;
}

void expect_law(const SamplerOptions& options, const std::vector<std::size_t>& kept) {
  const auto got = shares(options), want = law(options.temperature, kept);
  for (std::size_t i = 0; i < got.size(); ++i) {
    // five standard deviations of a share, and the rounding of its sum
    const double deviation = std::sqrt(want[i] * (1 - want[i]) / 40'000);
    EXPECT_NEAR(got[i], want[i], 5 * deviation + 1e-9) << "id " << i;
  }
}

TEST(Sampler, TemperatureZeroTakesTheFirstOfTheLargest) {
  Sampler sampler(SamplerOptions{.temperature = 0, .top_k = 3, .top_p = 0.5});
  EXPECT_EQ(sampler.pick(kLogits), 1);
}

TEST(Sampler, FollowsTheSoftmax) {
  expect_law({.temperature = 1}, {0, 1, 2, 3, 4});
  expect_law({.temperature = 0.5}, {0, 1, 2, 3, 4});
  expect_law({.temperature = 3, .seed = 9}, {0, 1, 2, 3, 4});
}

TEST(Sampler, TopKKeepsTheKLargestTheFirstOfEquals) {
  expect_law({.temperature = 1, .top_k = 1}, {1});
  expect_law({.temperature = 1, .top_k = 3}, {1, 3, 4});
  expect_law({.temperature = 1, .top_k = 100}, {0, 1, 2, 3, 4});
}

TEST(Sampler, TopPKeepsTheFewestThatReachTheShare) {
  // shares at temperature 1: 0.379, 0.379, 0.139, 0.085, 0.019
  expect_law({.temperature = 1, .top_p = 0.3}, {1});
  expect_law({.temperature = 1, .top_p = 0.5}, {1, 3});
  expect_law({.temperature = 1, .top_p = 0.8}, {1, 3, 4});
  expect_law({.temperature = 1, .top_k = 3, .top_p = 0.84}, {1, 3});  // of the three kept: 0.845
}

// Over several blocks of weights, with tokens that cannot be.
TEST(Sampler, FollowsTheSoftmaxOfManyTokens) {
  std::vector<float> logits(700, -std::numeric_limits<float>::infinity());
  const std::vector<std::size_t> possible = {3, 255, 256, 511, 690};
  for (std::size_t i = 0; i < possible.size(); ++i) {
    logits[possible[i]] = kLogits[i];
  }
  Sampler sampler({.temperature = 1});
  std::vector<double> got(logits.size());
  for (int i = 0; i < 40'000; ++i) {
    got[static_cast<std::size_t>(sampler.pick(logits))] += 1.0 / 40'000;
  }
  const std::vector<double> want = law(1, {0, 1, 2, 3, 4});
  double sum = 0;
  for (std::size_t i = 0; i < possible.size(); ++i) {
    EXPECT_NEAR(got[possible[i]], want[i], 5 * std::sqrt(want[i] * (1 - want[i]) / 40'000));
    sum += got[possible[i]];
  }
  EXPECT_NEAR(sum, 1.0, 1e-9);
}

TEST(Sampler, ATinyTemperatureTakesTheLargest) {
  const std::vector<float> logits = {1.0F, 2.0F, 1.5F};
  for (const double temperature : {1e-6, 1e-30, 1e-300}) {
    EXPECT_EQ(Sampler({.temperature = temperature}).pick(logits), 1) << temperature;
  }
}

TEST(Sampler, TheSeedAloneDecides) {
  const auto picks = [](std::uint64_t seed, std::uint32_t sequence = 0) {
    Sampler sampler({.temperature = 1, .seed = seed, .sequence = sequence});
    std::vector<std::int64_t> ids;
    for (int i = 0; i < 50; ++i) {
      ids.push_back(sampler.pick(kLogits));
    }
    return ids;
  };
  EXPECT_EQ(picks(3), picks(3));
  EXPECT_NE(picks(3), picks(4));
  EXPECT_NE(picks(3), picks(3, 1));
  EXPECT_EQ(picks(3, 1), picks(3, 1));
}

TEST(Sampler, RefusesWhatMakesNoSense) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> broken = {1.0F, nan};
  EXPECT_THROW(Sampler(SamplerOptions{}).pick(broken), Error);
  EXPECT_THROW(Sampler(SamplerOptions{.temperature = 1}).pick(broken), Error);
  EXPECT_THROW(Sampler(SamplerOptions{.temperature = 1, .top_k = 1}).pick(broken), Error);
  const std::vector<float> infinite = {1.0F, std::numeric_limits<float>::infinity()};
  EXPECT_THROW(Sampler(SamplerOptions{.temperature = 1}).pick(infinite), Error);
  EXPECT_THROW(Sampler(SamplerOptions{.temperature = -1}), Error);
  EXPECT_THROW(Sampler(SamplerOptions{.top_k = -1}), Error);
  EXPECT_THROW(Sampler(SamplerOptions{.top_p = 0}), Error);
  EXPECT_THROW(Sampler(SamplerOptions{.top_p = 1.5}), Error);
}

}  // namespace
}  // namespace darkformer::sampler_test
