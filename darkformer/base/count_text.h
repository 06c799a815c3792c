// A number with its noun, for messages: "1 token", "2 tokens".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace darkformer {

// The noun with an s for every count but 1; `plural` where an s alone does not make it.
std::string count_text(std::integral auto count,
                       std::string_view noun,
                       std::string_view plural = {}) {
  const std::string number = std::to_string(count) + " ";
  if (count == 1) {
    return number + std::string(noun);
  }
  return number + (plural.empty() ? std::string(noun) + "s" : std::string(plural));
}

}  // namespace darkformer
