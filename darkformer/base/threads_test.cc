// parallel_for: every index once, nesting, exceptions.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace darkformer::threads_test {
namespace {

TEST(Threads, RunsEveryIndexOnce) {
  for (const int count : {1, 2, 3, 4}) {
    set_threads(count);
    std::vector<std::atomic<int>> hits(257);
    parallel_for(hits.size(), [&](std::size_t i) { ++hits[i]; });
    for (const auto& hit : hits) {
      EXPECT_EQ(hit, 1);
    }
  }
}

TEST(Threads, RangesCoverWithoutOverlap) {
  set_threads(3);
  std::vector<std::atomic<int>> hits(1000);
  std::atomic<int> ranges{0};
  parallel_ranges(hits.size(), 10, [&](std::size_t begin, std::size_t end) {
    ++ranges;
    for (std::size_t i = begin; i < end; ++i) {
      ++hits[i];
    }
  });
  EXPECT_EQ(ranges, 3);
  for (const auto& hit : hits) {
    EXPECT_EQ(hit, 1);
  }
  parallel_ranges(5, 10, [&](std::size_t begin, std::size_t end) {
    EXPECT_EQ(begin, 0U);
    EXPECT_EQ(end, 5U);
  });
  parallel_ranges(0, 10, [&](std::size_t, std::size_t) { FAIL(); });
}

TEST(Threads, NestedLoopsRunOnTheCallingThread) {
  set_threads(2);
  std::atomic<int> sum{0};
  parallel_for(4, [&](std::size_t) { parallel_for(8, [&](std::size_t) { ++sum; }); });
  EXPECT_EQ(sum, 32);
}

TEST(Threads, RethrowsTheFirstException) {
  set_threads(2);
  std::atomic<int> ran{0};
  EXPECT_THROW(parallel_for(16,
                            [&](std::size_t i) {
                              ++ran;
                              if (i == 3) {
                                throw std::runtime_error("three");
                              }
                            }),
               std::runtime_error);
  EXPECT_EQ(ran, 16);
}

}  // namespace
}  // namespace darkformer::threads_test
