// Names from foreign files, made fit for one line of an error message.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace darkformer {

// The text with control characters as \xHH, cut after `longest` bytes.
inline std::string printable(std::string_view text, std::size_t longest = 120) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char character : text.substr(0, longest)) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 || byte == 0x7F) {
      out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      out += character;
    }
  }
  return text.size() > longest ? out + "..." : out;
}

}  // namespace darkformer
