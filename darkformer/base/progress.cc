// Drawing the progress of a job.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>

#include "darkformer/base/log.h"

namespace darkformer {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::atomic<ProgressStyle> current_style{ProgressStyle::kSilent};

constexpr int kBarWidth = 24;
constexpr milliseconds kRedraw{100};  // ten times a second looks smooth and costs nothing
constexpr seconds kLineEvery{30};

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

std::string bar(std::int64_t done, std::int64_t total) {
  if (total <= 0) {
    return "";
  }
  const double share = static_cast<double>(done) / static_cast<double>(total);
  const int full = static_cast<int>(std::floor(std::clamp(share, 0.0, 1.0) * kBarWidth));
  std::string text = "[";
  text.append(static_cast<std::size_t>(full), '#');
  text.append(static_cast<std::size_t>(kBarWidth - full), '.');
  return text + "] ";
}

int terminal_columns() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

}  // namespace

void set_progress_style(ProgressStyle style) {
  current_style = style;
}

ProgressStyle progress_style() {
  return current_style;
}

Progress::Progress(std::string label, std::int64_t total)
    : Progress(std::move(label), total, Options{}) {}

Progress::Progress(std::string label, std::int64_t total, Options options)
    : label_(std::move(label)),
      total_(total),
      options_(std::move(options)),
      style_(progress_style()),
      done_(options_.start),
      started_(options_.now()),
      shown_(started_) {
  show();
}

Progress::~Progress() {
  if (style_ == ProgressStyle::kBar) {
    set_status_line("");
  }
  if (style_ != ProgressStyle::kSilent) {
    log_info(text());
  }
}

void Progress::advance(std::int64_t amount) {
  const std::lock_guard lock(mutex_);
  done_ += amount;
  const auto now = options_.now();
  const Clock::duration pause =
      style_ == ProgressStyle::kBar ? Clock::duration(kRedraw) : kLineEvery;
  if (now - shown_ >= pause) {
    shown_ = now;
    show();
  }
}

void Progress::note(std::string remark) {
  const std::lock_guard lock(mutex_);
  note_ = std::move(remark);
}

std::string Progress::line() const {
  const std::lock_guard lock(mutex_);
  return text();
}

std::string Progress::text() const {
  const double elapsed = std::chrono::duration<double>(options_.now() - started_).count();
  const auto worked = static_cast<double>(done_ - options_.start);
  std::string text = label_ + ": " + std::to_string(done_);
  if (total_ > 0) {
    text += "/" + std::to_string(total_);
  }
  text += " " + options_.unit;
  if (total_ > 0) {
    const double share = static_cast<double>(done_) / static_cast<double>(total_);
    text += format(", %.0f %%", std::floor(100 * share));
  }
  if (worked > 0 && elapsed > 0) {
    text += ", " + quantity_text(worked / elapsed) + " " + options_.unit + "/s";
    if (total_ > done_) {
      text +=
          ", " + duration_text(static_cast<double>(total_ - done_) * elapsed / worked) + " left";
    }
  }
  if (total_ > 0 && done_ >= total_) {
    text += ", took " + duration_text(elapsed);
  }
  return note_.empty() ? text : text + ", " + note_;
}

void Progress::show() {
  if (style_ == ProgressStyle::kLines) {
    log_info(text());
  } else if (style_ == ProgressStyle::kBar) {
    const int columns = options_.columns > 0 ? options_.columns : terminal_columns();
    // One column less than the terminal: a full line would wrap and could not be erased.
    set_status_line((bar(done_, total_) + text())
                        .substr(0, static_cast<std::size_t>(std::max(1, columns - 1))));
  }
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<long long>(std::llround(std::min(std::max(seconds, 0.0), 1e12)));
  if (whole < 60) {
    return format("%lld s", whole);
  }
  if (whole < 3600) {
    return format("%lld min %02lld s", whole / 60, whole % 60);
  }
  if (whole < 86400) {
    return format("%lld h %02lld min", whole / 3600, whole % 3600 / 60);
  }
  return format("%lld d %lld h", whole / 86400, whole % 86400 / 3600);
}

std::string quantity_text(double value) {
  if (value < 10) {
    return format("%.2f", value);
  }
  if (value < 100) {
    return format("%.1f", value);
  }
  if (value < 1e5) {
    return format("%.0f", value);
  }
  return value < 1e9 ? format("%.2fM", value / 1e6) : format("%.2fG", value / 1e9);
}

}  // namespace darkformer
