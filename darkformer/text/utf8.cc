// UTF-8 check: eight ASCII bytes at a time, the rest by the table of well-formed sequences.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/utf8.h"

#include <cstdint>
#include <cstring>

namespace darkformer {
namespace {

constexpr std::uint64_t kHighBits = 0x8080808080808080;

bool eight_ascii_bytes(const char* bytes) {
  std::uint64_t word;
  std::memcpy(&word, bytes, sizeof(word));
  return (word & kHighBits) == 0;
}

bool within(unsigned char byte, unsigned low, unsigned high) {
  return byte >= low && byte <= high;
}

// The length that a well-formed sequence starting with `lead` has (0: it starts none), and the
// range of its second byte.
struct Sequence {
  std::size_t length;
  unsigned low = 0x80;
  unsigned high = 0xBF;
};

Sequence sequence_of(unsigned char lead) {
  if (lead < 0x80) {
    return {1};
  }
  if (within(lead, 0xC2, 0xDF)) {
    return {2};
  }
  if (within(lead, 0xE0, 0xEF)) {
    // E0: no overlong forms; ED: no surrogates.
    return {3, lead == 0xE0 ? 0xA0U : 0x80U, lead == 0xED ? 0x9FU : 0xBFU};
  }
  if (within(lead, 0xF0, 0xF4)) {
    // F0: no overlong forms; F4: nothing above U+10FFFF.
    return {4, lead == 0xF0 ? 0x90U : 0x80U, lead == 0xF4 ? 0x8FU : 0xBFU};
  }
  return {0};
}

// The length of the well-formed sequence that text starts with, 0 if there is none. text is not
// empty.
std::size_t valid_sequence(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const Sequence sequence = sequence_of(byte(0));
  if (sequence.length <= 1) {
    return sequence.length;
  }
  if (text.size() < sequence.length || !within(byte(1), sequence.low, sequence.high)) {
    return 0;
  }
  for (std::size_t i = 2; i < sequence.length; ++i) {
    if (!within(byte(i), 0x80, 0xBF)) {
      return 0;
    }
  }
  return sequence.length;
}

}  // namespace

std::size_t find_invalid_utf8(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    if (i + 8 <= text.size() && eight_ascii_bytes(text.data() + i)) {
      i += 8;
      continue;
    }
    const std::size_t length = valid_sequence(text.substr(i));
    if (length == 0) {
      return i;
    }
    i += length;
  }
  return std::string_view::npos;
}

std::size_t wide_character_length(std::string_view text) {
  return valid_sequence(text);
}

char32_t code_point(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) {
    return lead;
  }
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  char32_t value = lead & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    value = value << 6 | (static_cast<unsigned char>(text[i]) & 63U);
  }
  return value;
}

bool is_white_space(char32_t c) {
  return c == ' ' || (c >= 0x09 && c <= 0x0D) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

std::size_t broken_utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const Sequence sequence = sequence_of(byte(0));
  if (sequence.length == 0 || text.size() < 2 || !within(byte(1), sequence.low, sequence.high)) {
    return 1;
  }
  std::size_t length = 2;
  while (length < sequence.length && length < text.size() && within(byte(length), 0x80, 0xBF)) {
    ++length;
  }
  return length;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 8);
  for (;;) {
    const std::size_t bad = find_invalid_utf8(text);
    out += text.substr(0, bad);
    if (bad == std::string_view::npos) {
      return out;
    }
    text.remove_prefix(bad);
    text.remove_prefix(broken_utf8_length(text));
    out += "\xEF\xBF\xBD";
  }
}

}  // namespace darkformer
