// The count of broken lines and its limit.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/broken_lines.h"

#include <algorithm>

#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"

namespace darkformer {
namespace {

// Reasons quote the line, which may be long and, being broken, may hold anything.
std::string one_line(std::string reason) {
  constexpr std::size_t kLongest = 200;
  if (reason.size() > kLongest) {
    reason = reason.substr(0, kLongest) + "...";
  }
  std::replace_if(
      reason.begin(), reason.end(), [](char letter) { return letter < ' ' || letter > '~'; }, '?');
  return reason;
}

}  // namespace

std::string ReadReport::summary() const {
  std::string text =
      concat(file, ": ", count_text(documents, "document"), " from ", count_text(lines, "line"));
  if (broken_lines > 0) {
    text += concat(", ", broken_lines, " broken (first: line ", first_broken_line, ": ",
                   first_broken_reason, ")");
  }
  return text;
}

void BrokenLines::add(std::int64_t number, const std::string& reason) {
  if (report_.broken_lines++ == 0) {
    report_.first_broken_line = number;
    report_.first_broken_reason = one_line(reason);
  }
  check(std::max(report_.lines, kFewLines));
}

void BrokenLines::finish() const {
  check(report_.lines);
}

void BrokenLines::check(std::int64_t lines) const {
  const auto share = static_cast<std::int64_t>(limit_.fraction * static_cast<double>(lines));
  const std::int64_t allowed = std::max(limit_.at_least, share);
  require(report_.broken_lines <= allowed, report_.file, ": ",
          count_text(report_.broken_lines, "broken line"), " in the first ", report_.lines, " (",
          allowed, " allowed); the first is line ", report_.first_broken_line, ": ",
          report_.first_broken_reason);
}

}  // namespace darkformer
