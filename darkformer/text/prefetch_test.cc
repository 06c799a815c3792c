// The background producer: order, bound, exceptions, a clean end at any moment.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/prefetch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>

namespace darkformer::prefetch_test {
namespace {

TEST(Prefetcher, GivesItemsInOrder) {
  for (const std::size_t capacity : {1, 2, 7}) {
    int made = 0;
    Prefetcher<int> prefetcher([&made] { return made++; }, capacity);
    for (int i = 0; i < 1000; ++i) {
      ASSERT_EQ(prefetcher.next(), i);
    }
  }
}

TEST(Prefetcher, StaysWithinItsCapacity) {
  std::atomic<int> made = 0;
  Prefetcher<int> prefetcher([&made] { return made++; }, 3);
  for (int taken = 1; taken <= 5; ++taken) {
    prefetcher.next();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_LE(made, taken + 3 + 1) << "those waiting and one in the making";
  }
}

TEST(Prefetcher, ThrowsAfterTheItemsBefore) {
  int made = 0;
  Prefetcher<int> prefetcher(
      [&made] {
        if (made == 3) {
          throw std::runtime_error("no more");
        }
        return made++;
      },
      10);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(prefetcher.next(), i);
  }
  EXPECT_THROW(prefetcher.next(), std::runtime_error);
  EXPECT_THROW(prefetcher.next(), std::runtime_error) << "again, and without waiting";
}

TEST(Prefetcher, EndsAtAnyMoment) {
  for (int taken = 0; taken < 50; ++taken) {
    Prefetcher<std::unique_ptr<int>> prefetcher([] { return std::make_unique<int>(1); }, 2);
    for (int i = 0; i < taken % 5; ++i) {
      EXPECT_EQ(*prefetcher.next(), 1);
    }
  }
  Prefetcher<int> failed([]() -> int { throw std::runtime_error("unseen"); }, 2);
}

}  // namespace
}  // namespace darkformer::prefetch_test
