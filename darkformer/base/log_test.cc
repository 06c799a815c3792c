// Log lines: level, one line on standard error, nothing on standard output.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/log.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace darkformer::log_test {
namespace {

std::string stderr_of(const auto& action) {
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  action();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  return testing::internal::GetCapturedStderr();
}

TEST(Log, JoinsPartsIntoOneLine) {
  set_log_level(LogLevel::kInfo);
  const std::string text = stderr_of([] { log_warning("layer ", 3, ": loss ", 2.5, " {}"); });
  EXPECT_NE(text.find("warning"), std::string::npos) << text;
  EXPECT_NE(text.find("layer 3: loss 2.5 {}\n"), std::string::npos) << text;
}

TEST(Log, DropsWhatIsBelowTheLevel) {
  set_log_level(LogLevel::kInfo);
  EXPECT_EQ(stderr_of([] { log_debug("hidden"); }), "");
  set_log_level(LogLevel::kDebug);
  EXPECT_NE(stderr_of([] { log_debug("shown"); }).find("shown"), std::string::npos);
  set_log_level(LogLevel::kSilent);
  EXPECT_EQ(stderr_of([] { log_warning("nobody hears"); }), "");
  set_log_level(LogLevel::kInfo);
}

TEST(Log, StatusLineIsErasedAndDrawnAgainAroundALine) {
  const std::string text = stderr_of([] {
    set_status_line("bar 50 %");
    log_info("event");
    set_status_line("");
  });
  const std::size_t event = text.find("event\n");
  ASSERT_NE(event, std::string::npos);
  EXPECT_NE(text.find("\r\033[K"), std::string::npos);
  EXPECT_NE(text.find("bar 50 %", event), std::string::npos);
  EXPECT_EQ(text.substr(text.size() - 4), "\r\033[K");
}

TEST(Log, LinesOfThreadsAreNotTorn) {
  const std::string text = stderr_of([] {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([] {
        for (int i = 0; i < 50; ++i) {
          log_info("0123456789abcdef");
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  });
  std::size_t lines = 0;
  for (std::size_t at = text.find("0123456789abcdef\n"); at != std::string::npos;
       at = text.find("0123456789abcdef\n", at + 1)) {
    ++lines;
  }
  EXPECT_EQ(lines, 200U);
}

}  // namespace
}  // namespace darkformer::log_test
