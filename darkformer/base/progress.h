// How far a long job is: a bar with rate and time left on a terminal, a plain line now and then
// elsewhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

namespace darkformer {

enum class ProgressStyle {
  kBar,    // one line, redrawn in place
  kLines,  // a log line at the start of the work, then every 30 seconds, and at the end
  kSilent,
};

// The style of Progress objects made from now on; kSilent until a program chooses.
void set_progress_style(ProgressStyle style);
ProgressStyle progress_style();

// Thread-safe. The object lives as long as the work; its end removes the bar.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    std::string unit = "steps";                            // what is counted
    std::int64_t start = 0;                                // done before: a resumed run
    std::function<Clock::time_point()> now = &Clock::now;  // tests bring their own clock
    int columns = 0;                                       // width of the bar; 0: ask the terminal
  };

  // total 0: unknown, then there is no bar and no time left.
  Progress(std::string label, std::int64_t total);
  Progress(std::string label, std::int64_t total, Options options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance(std::int64_t amount = 1);
  // A short remark behind the bar, such as "loss 3.21".
  void note(std::string remark);

  // The line as it would be shown now, without the bar.
  std::string line() const;

 private:
  std::string text() const;
  void show();

  const std::string label_;
  const std::int64_t total_;
  const Options options_;
  const ProgressStyle style_;
  mutable std::mutex mutex_;
  std::int64_t done_;
  std::string note_;
  Clock::time_point started_;
  Clock::time_point shown_;
};

// "7 s", "3 min 20 s", "2 h 05 min", "3 d 4 h".
std::string duration_text(double seconds);
// "0.32", "12.3", "4567", "1.23M": about three digits, for rates and counts.
std::string quantity_text(double value);

}  // namespace darkformer
