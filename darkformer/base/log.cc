// Log lines through spdlog, and the status line that log lines must not tear.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/log.h"

#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>

namespace darkformer {
namespace {

std::atomic<LogLevel> current_level{LogLevel::kInfo};

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kSilent:
      break;
  }
  return spdlog::level::off;
}

// Standard error, shared by log lines and the status line under one lock.
class Terminal {
 public:
  Terminal() : logger_("darkformer", std::make_shared<spdlog::sinks::ansicolor_stderr_sink_st>()) {
    logger_.set_level(spdlog::level::trace);
    logger_.set_pattern("%H:%M:%S %^%l%$ %v");
  }

  void line(LogLevel level, std::string_view message) {
    const std::lock_guard lock(mutex_);
    erase_status();
    logger_.log(spdlog_level(level), spdlog::string_view_t(message.data(), message.size()));
    logger_.flush();
    draw_status();
  }

  void status(std::string_view text) {
    const std::lock_guard lock(mutex_);
    erase_status();
    status_ = text;
    draw_status();
  }

 private:
  void erase_status() const {
    if (!status_.empty()) {
      std::fputs("\r\033[K", stderr);
    }
  }
  void draw_status() const {
    if (!status_.empty()) {
      std::fputs(status_.c_str(), stderr);
    }
    std::fflush(stderr);
  }

  std::mutex mutex_;
  spdlog::logger logger_;
  std::string status_;
};

// Never destroyed: threads may still log while the process ends.
Terminal& terminal() {
  static auto* const instance = new Terminal;
  return *instance;
}

}  // namespace

void set_log_level(LogLevel level) {
  current_level = level;
}

LogLevel log_level() {
  return current_level;
}

void log_line(LogLevel level, std::string_view message) {
  if (level >= log_level() && level != LogLevel::kSilent) {
    terminal().line(level, message);
  }
}

void set_status_line(std::string_view text) {
  terminal().status(text);
}

bool stderr_is_terminal() {
  return isatty(STDERR_FILENO) == 1;
}

}  // namespace darkformer
