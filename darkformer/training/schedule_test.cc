// The learning rate at its corners.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/training/schedule.h"

#include <gtest/gtest.h>

namespace darkformer::schedule_test {
namespace {

TEST(Schedule, WarmUpIsLinear) {
  const Schedule schedule{.kind = ScheduleKind::kConstant, .peak = 2, .warmup = 4, .steps = 10};
  EXPECT_DOUBLE_EQ(schedule.rate(1), 0.5);
  EXPECT_DOUBLE_EQ(schedule.rate(3), 1.5);
  EXPECT_DOUBLE_EQ(schedule.rate(4), 2);
  EXPECT_DOUBLE_EQ(schedule.rate(10), 2);
}

TEST(Schedule, CosineFallsFromPeakToItsShare) {
  const Schedule schedule{.peak = 1, .warmup = 2, .steps = 12, .final_share = 0.2};
  EXPECT_DOUBLE_EQ(schedule.rate(2), 1);
  EXPECT_DOUBLE_EQ(schedule.rate(7), 0.6);  // half-way: the mean of both ends
  EXPECT_DOUBLE_EQ(schedule.rate(12), 0.2);
  EXPECT_DOUBLE_EQ(schedule.rate(13), 0.2);
  for (std::int64_t step = 2; step < 12; ++step) {
    EXPECT_GT(schedule.rate(step), schedule.rate(step + 1));
  }
}

TEST(Schedule, NoWarmUpAndAllWarmUp) {
  EXPECT_LT((Schedule{.peak = 1, .steps = 3}.rate(1)), 1);
  EXPECT_DOUBLE_EQ((Schedule{.peak = 1, .warmup = 3, .steps = 3}.rate(3)), 1);
}

}  // namespace
}  // namespace darkformer::schedule_test
