// Range arithmetic on the mask against the rule of exact_attention.h, key by key.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/exact_attention_plan.h"

#include <gtest/gtest.h>

namespace darkformer::kernels::exact_attention_plan_test {
namespace {

bool visible(const ExactAttention& a, std::size_t i, std::size_t j) {
  const int own = static_cast<int>(i + a.S) - static_cast<int>(a.T);
  const int key = static_cast<int>(j);
  return !a.causal ||
         (key <= own && (a.window == 0 || key > own - static_cast<int>(a.window) || j < a.sinks));
}

std::size_t count_visible(const ExactAttention& a, Range queries, Range keys) {
  std::size_t count = 0;
  for (std::size_t i = queries.begin; i < queries.end; ++i) {
    for (std::size_t j = keys.begin; j < keys.end; ++j) {
      count += visible(a, i, j) ? 1 : 0;
    }
  }
  return count;
}

void check(const ExactAttention& a, Range queries, Range keys) {
  const Visibility mask(a);
  const std::size_t count = count_visible(a, queries, keys);
  EXPECT_EQ(mask.full(queries, keys), count == queries.size() * keys.size());
  const Range seen = mask.seen(queries, keys);
  EXPECT_EQ(seen.empty(), count == 0);
  if (!seen.empty()) {
    EXPECT_TRUE(seen.begin >= keys.begin && seen.end <= keys.end);
    EXPECT_EQ(count_visible(a, queries, seen), count);
    EXPECT_GT(count_visible(a, queries, {seen.begin, seen.begin + 1}), 0U);
    EXPECT_GT(count_visible(a, queries, {seen.end - 1, seen.end}), 0U);
  }
  const Range seeing = mask.seeing(queries, keys);
  EXPECT_EQ(count_visible(a, {seeing.begin, std::max(seeing.begin, seeing.end)}, keys), count);
  EXPECT_TRUE(seeing.empty() || (seeing.begin >= queries.begin && seeing.end <= queries.end));
}

std::vector<Range> all_ranges(std::size_t size) {
  std::vector<Range> ranges;
  for (std::size_t begin = 0; begin < size; ++begin) {
    for (std::size_t end = begin + 1; end <= size; ++end) {
      ranges.push_back({begin, end});
    }
  }
  return ranges;
}

void check_all_ranges(const ExactAttention& a) {
  for (const Range queries : all_ranges(a.T)) {
    for (const Range keys : all_ranges(a.S)) {
      check(a, queries, keys);
    }
  }
}

TEST(Visibility, FollowsTheRule) {
  for (const auto& [T, S] : {std::pair{1, 1}, {5, 5}, {3, 7}, {7, 3}, {6, 6}}) {
    for (const std::size_t window : {0, 1, 2, 4, 9}) {
      for (const std::size_t sinks : {0, 1, 3, 8}) {
        ExactAttention a{.B = 1, .H = 1, .G = 1};
        a.T = static_cast<std::size_t>(T);
        a.S = static_cast<std::size_t>(S);
        a.window = window;
        a.sinks = sinks;
        SCOPED_TRACE(::testing::Message() << T << " " << S << " " << window << " " << sinks);
        check_all_ranges(a);
        a.causal = window != 0;
        check_all_ranges(a);
      }
    }
  }
}

TEST(Visibility, KeyBlocksCoverWhatIsSeen) {
  const ExactAttention a{.B = 1, .H = 1, .G = 1, .T = 1000, .S = 1000, .window = 200, .sinks = 3};
  std::vector<Range> blocks;
  for_each_key_block(Visibility(a), {500, 596}, a.S, [&](Range keys) { blocks.push_back(keys); });
  ASSERT_EQ(blocks.size(), 5U);
  EXPECT_EQ(blocks[0].begin, 0U);
  EXPECT_EQ(blocks[0].end, 3U);
  EXPECT_EQ(blocks[1].begin, 301U);
  EXPECT_EQ(blocks[4].end, 596U);
}

}  // namespace
}  // namespace darkformer::kernels::exact_attention_plan_test
