// Names from foreign files, made fit for one line of an error message.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace darkformer {

// Bytes of the UTF-8 character the text starts with; 0 where it starts with none. Overlong forms
// and surrogates pass: a terminal shows them as it likes.
inline std::size_t utf8_length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t length = lead < 0x80                   ? 1
                             : lead >= 0xC2 && lead < 0xE0 ? 2
                             : lead >= 0xE0 && lead < 0xF0 ? 3
                             : lead >= 0xF0 && lead < 0xF5 ? 4
                                                           : 0;
  if (length == 0 || length > text.size()) {
    return 0;
  }
  const std::string_view tail = text.substr(1, length - 1);
  const auto continues = [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
  };
  return std::all_of(tail.begin(), tail.end(), continues) ? length : 0;
}

// The text with control characters and bytes that are not UTF-8 as \xHH, cut after `longest` bytes.
inline std::string printable(std::string_view text, std::size_t longest = 120) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  std::string_view rest = text.substr(0, longest);
  while (!rest.empty()) {
    const auto byte = static_cast<unsigned char>(rest.front());
    const std::size_t length = byte < 0x20 || byte == 0x7F ? 0 : utf8_length(rest);
    if (length == 0) {
      out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      out += rest.substr(0, length);
    }
    rest.remove_prefix(std::max<std::size_t>(1, length));
  }
  return text.size() > longest ? out + "..." : out;
}

}  // namespace darkformer
