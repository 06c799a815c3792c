// Signals: the first sets the flag, the second ends the process.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <thread>

namespace darkformer::interrupt_test {
namespace {

TEST(Interrupt, FirstSignalSetsTheFlag) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const InterruptGuard guard;
    EXPECT_FALSE(interrupted());
    raise(signal);
    EXPECT_TRUE(interrupted());
  }
  set_interrupted(false);
}

TEST(Interrupt, SecondSignalEndsTheProcess) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        const InterruptGuard guard;
        raise(SIGTERM);
        std::this_thread::sleep_for(std::chrono::milliseconds(600));
        raise(SIGINT);
      },
      testing::ExitedWithCode(130), "");
}

TEST(Interrupt, OneWishMayComeAsTwoSignals) {
  const InterruptGuard guard;
  raise(SIGTERM);
  raise(SIGTERM);  // as timeout(1) does
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  raise(SIGHUP);  // as a terminal does, at any time
  EXPECT_TRUE(interrupted());
  set_interrupted(false);
}

TEST(Interrupt, NohupStaysInForce) {
  const auto before = signal(SIGHUP, SIG_IGN);
  {
    const InterruptGuard guard;
    raise(SIGHUP);
    EXPECT_FALSE(interrupted());
  }
  signal(SIGHUP, before);
}

TEST(Interrupt, WithoutAGuardSignalsKeepTheirMeaning) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        { const InterruptGuard guard; }
        raise(SIGINT);
      },
      testing::KilledBySignal(SIGINT), "");
}

TEST(Interrupt, CanBeSetByHand) {
  set_interrupted(true);
  EXPECT_TRUE(interrupted());
  set_interrupted(false);
  EXPECT_FALSE(interrupted());
}

}  // namespace
}  // namespace darkformer::interrupt_test
