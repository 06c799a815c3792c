// Is this text well-formed UTF-8, and what is read in its place where it is not?
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace darkformer {

// The offset of the first byte that cannot belong to well-formed UTF-8 (Unicode 15, table 3-7: no
// overlong forms, no surrogates, nothing above U+10FFFF, nothing cut short), or npos when all is
// well.
std::size_t find_invalid_utf8(std::string_view text);

inline bool is_utf8(std::string_view text) {
  return find_invalid_utf8(text) == std::string_view::npos;
}

// For character_length alone: text does not start with an ASCII character.
std::size_t wide_character_length(std::string_view text);

// The length in bytes of the well-formed character that text starts with, 0 if there is none. text
// is not empty.
inline std::size_t character_length(std::string_view text) {
  return static_cast<unsigned char>(text[0]) < 0x80 ? 1 : wide_character_length(text);
}

// The code point of the well-formed character that text starts with.
char32_t code_point(std::string_view text);

// Unicode's White_Space.
bool is_white_space(char32_t c);

// How many of the first bytes of text are the longest start of a well-formed character that goes no
// further (Unicode's "maximal subpart"), at least 1. text starts with no whole character.
std::size_t broken_utf8_length(std::string_view text);

// The text with U+FFFD for each such start: what Python's errors="replace" and browsers read.
std::string replace_invalid_utf8(std::string_view text);

}  // namespace darkformer
