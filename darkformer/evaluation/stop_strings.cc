// Looking for stop strings in a stream.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/stop_strings.h"

#include <algorithm>
#include <utility>

#include "darkformer/base/error.h"

namespace darkformer {
namespace {

// The length of the longest end of `text` that begins `word` without being all of it.
std::size_t held_back(std::string_view text, std::string_view word) {
  for (std::size_t length = std::min(text.size(), word.size() - 1); length > 0; --length) {
    if (text.substr(text.size() - length) == word.substr(0, length)) {
      return length;
    }
  }
  return 0;
}

}  // namespace

StopStrings::StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {
  for (const std::string& text : strings_) {
    require(!text.empty(), "stop strings: an empty one would stop at once");
  }
}

std::string StopStrings::push(std::string_view text) {
  if (stopped_) {
    return "";
  }
  pending_ += text;
  std::size_t end = std::string::npos;
  std::size_t held = 0;
  for (const std::string& word : strings_) {
    end = std::min(end, pending_.find(word));
    held = std::max(held, held_back(pending_, word));
  }
  stopped_ = end != std::string::npos;
  std::string out = pending_.substr(0, stopped_ ? end : pending_.size() - held);
  pending_ = stopped_ ? "" : pending_.substr(out.size());
  return out;
}

std::string StopStrings::finish() {
  return std::exchange(pending_, "");
}

}  // namespace darkformer
