// Jumps are found, noise and slopes are not.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/training/loss_spikes.h"

#include <gtest/gtest.h>

#include "darkformer/base/philox.h"

namespace darkformer::loss_spikes_test {
namespace {

double noisy(int step) {
  return 3.0 - 0.002 * step + 0.05 * (Philox(5).uniform(static_cast<std::uint64_t>(step)) - 0.5);
}

TEST(SpikeDetector, FindsAJumpAndNothingElse) {
  SpikeDetector detector;
  for (int step = 0; step < 300; ++step) {
    const bool jump = step == 120 || step == 200;
    EXPECT_EQ(detector.add(noisy(step) + (jump ? 1.0 : 0.0)), jump) << step;
  }
}

TEST(SpikeDetector, ADropIsNoSpikeAndTheFirstLossesAreNone) {
  SpikeDetector detector;
  for (int step = 0; step < 9; ++step) {
    EXPECT_FALSE(detector.add(step == 5 ? 100.0 : 1.0 + 0.01 * step));
  }
  EXPECT_FALSE(detector.add(1));
  EXPECT_FALSE(detector.add(-50));
  EXPECT_TRUE(detector.add(50));
}

TEST(SpikeDetector, GoesOnAfterRestore) {
  SpikeDetector whole, first;
  for (int step = 0; step < 70; ++step) {
    whole.add(noisy(step));
    first.add(noisy(step));
  }
  EXPECT_EQ(first.recent().size(), SpikeDetector::kWindow);
  SpikeDetector second;
  second.restore(first.recent());
  for (int step = 70; step < 140; ++step) {
    const double loss = noisy(step) + (step % 13 == 0 ? 0.3 : 0.0);
    EXPECT_EQ(second.add(loss), whole.add(loss)) << step;
  }
}

}  // namespace
}  // namespace darkformer::loss_spikes_test
