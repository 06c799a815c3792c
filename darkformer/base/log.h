// The library's one way to say something to people: lines on standard error, with a level.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "darkformer/base/error.h"

namespace darkformer {

enum class LogLevel { kDebug, kInfo, kWarning, kSilent };

// Messages below the level are dropped; kInfo at the start. All functions here are thread-safe.
void set_log_level(LogLevel level);
LogLevel log_level();

void log_line(LogLevel level, std::string_view message);

// As require() and fail(): the parts are joined. They are not formatted when nobody will see them.
template <class... Parts>
void log(LogLevel level, Parts&&... parts) {
  if (level >= log_level()) {
    log_line(level, concat(std::forward<Parts>(parts)...));
  }
}
template <class... Parts>
void log_debug(Parts&&... parts) {
  log(LogLevel::kDebug, std::forward<Parts>(parts)...);
}
template <class... Parts>
void log_info(Parts&&... parts) {
  log(LogLevel::kInfo, std::forward<Parts>(parts)...);
}
template <class... Parts>
void log_warning(Parts&&... parts) {
  log(LogLevel::kWarning, std::forward<Parts>(parts)...);
}

// A line that stays at the bottom of the terminal, with log lines scrolling above it (the progress
// bar). An empty one removes it. Only for standard error on a terminal.
void set_status_line(std::string_view text);

// Is standard error a terminal?
bool stderr_is_terminal();

}  // namespace darkformer
