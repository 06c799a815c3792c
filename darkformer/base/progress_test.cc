// Progress: rate, time left, resumed runs, and what reaches standard error in each style.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/progress.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>
#include <vector>

namespace darkformer::progress_test {
namespace {

class HandClock {
 public:
  void pass(double seconds) { now_ += std::chrono::milliseconds(std::llround(seconds * 1000)); }
  Progress::Options options(std::int64_t start = 0) {
    Progress::Options options;
    options.start = start;
    options.now = [this] { return now_; };
    options.columns = 200;
    return options;
  }

 private:
  Progress::Clock::time_point now_{};
};

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t hits = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++hits;
  }
  return hits;
}

TEST(Progress, SaysRateAndTimeLeft) {
  set_progress_style(ProgressStyle::kSilent);
  HandClock clock;
  Progress progress("train", 200, clock.options());
  EXPECT_EQ(progress.line(), "train: 0/200 steps, 0 %");
  clock.pass(10);
  progress.advance(50);
  progress.note("loss 3.21");
  EXPECT_EQ(progress.line(), "train: 50/200 steps, 25 %, 5.00 steps/s, 30 s left, loss 3.21");
  progress.advance(150);
  EXPECT_EQ(progress.line(), "train: 200/200 steps, 100 %, 20.0 steps/s, took 10 s, loss 3.21");
}

TEST(Progress, AResumedRunCountsOnlyItsOwnWork) {
  set_progress_style(ProgressStyle::kSilent);
  HandClock clock;
  Progress progress("train", 200, clock.options(100));
  clock.pass(10);
  progress.advance(50);
  EXPECT_EQ(progress.line(), "train: 150/200 steps, 75 %, 5.00 steps/s, 10 s left");
}

TEST(Progress, UnknownTotalHasNoShare) {
  set_progress_style(ProgressStyle::kSilent);
  HandClock clock;
  Progress progress("read", 0, clock.options());
  clock.pass(2);
  progress.advance(3000);
  EXPECT_EQ(progress.line(), "read: 3000 steps, 1500 steps/s");
}

TEST(Progress, SilentWritesNothing) {
  set_progress_style(ProgressStyle::kSilent);
  HandClock clock;
  testing::internal::CaptureStderr();
  {
    Progress progress("train", 10, clock.options());
    clock.pass(100);
    progress.advance(10);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Progress, LinesComeNowAndThenWithoutControlCharacters) {
  set_progress_style(ProgressStyle::kLines);
  HandClock clock;
  testing::internal::CaptureStderr();
  {
    Progress progress("train", 1000, clock.options());
    for (int i = 0; i < 70; ++i) {
      clock.pass(1);
      progress.advance();
    }
  }
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(count(text, "\n"), 4U) << text;  // start, 30 s, 60 s, end
  EXPECT_EQ(count(text, "\r"), 0U);
  EXPECT_EQ(count(text, "\033"), 0U);
  set_progress_style(ProgressStyle::kSilent);
}

TEST(Progress, BarIsRedrawnInPlaceAndFitsTheTerminal) {
  set_progress_style(ProgressStyle::kBar);
  HandClock clock;
  auto options = clock.options();
  options.columns = 40;
  testing::internal::CaptureStderr();
  {
    Progress progress("train", 100, options);
    clock.pass(0.01);
    progress.advance();  // too soon to draw again
    clock.pass(1);
    progress.advance(49);
  }
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(count(text, "[#"), 1U) << text;
  EXPECT_NE(text.find("info train: 50/100 steps, 50 %"), std::string::npos) << text;
  EXPECT_NE(text.find("[############............] train: 50/10\r"), std::string::npos) << text;
  set_progress_style(ProgressStyle::kSilent);
}

TEST(Progress, ThreadsMayAdvance) {
  set_progress_style(ProgressStyle::kSilent);
  Progress progress("work", 4000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        progress.advance();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(progress.line().rfind("work: 4000/4000 steps, 100 %", 0), 0U) << progress.line();
}

TEST(Progress, DurationsReadWell) {
  EXPECT_EQ(duration_text(0.2), "0 s");
  EXPECT_EQ(duration_text(59.6), "1 min 00 s");
  EXPECT_EQ(duration_text(3725), "1 h 02 min");
  EXPECT_EQ(duration_text(273600), "3 d 4 h");
  EXPECT_EQ(quantity_text(0.3217), "0.32");
  EXPECT_EQ(quantity_text(45.67), "45.7");
  EXPECT_EQ(quantity_text(4567), "4567");
  EXPECT_EQ(quantity_text(1234567), "1.23M");
}

}  // namespace
}  // namespace darkformer::progress_test
