// The 256 printable characters that byte-level vocabularies write bytes as.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace darkformer {

// Visible characters of Latin-1 stand for themselves; the other bytes, in their order, are U+0100,
// U+0101 and so on: a space is U+0120.
std::string byte_character(unsigned char byte);

// The bytes that a piece stands for; nothing if it has a character that stands for none.
std::optional<std::string> spelled_bytes(std::string_view piece);

}  // namespace darkformer
