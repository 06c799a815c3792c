// Bytes as characters of their own, and back.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/byte_alphabet.h"

#include <array>
#include <cstdint>

namespace darkformer {
namespace {

constexpr unsigned kAlphabetEnd = 0x144;  // 0x100 + the 68 bytes that are not visible

constexpr bool is_visible(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

struct Alphabet {
  std::array<std::uint16_t, 256> characters{};
  std::array<std::int16_t, kAlphabetEnd> bytes{};

  constexpr Alphabet() {
    for (auto& byte : bytes) {
      byte = -1;
    }
    unsigned next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const unsigned character = is_visible(byte) ? byte : next++;
      characters[byte] = static_cast<std::uint16_t>(character);
      bytes[character] = static_cast<std::int16_t>(byte);
    }
  }
};

constexpr Alphabet kAlphabet;

}  // namespace

std::string byte_character(unsigned char byte) {
  const unsigned character = kAlphabet.characters[byte];
  if (character < 0x80) {
    return {static_cast<char>(character)};
  }
  return {static_cast<char>(0xC0 | character >> 6), static_cast<char>(0x80 | (character & 63))};
}

std::optional<std::string> spelled_bytes(std::string_view piece) {
  std::string bytes;
  for (std::size_t at = 0; at < piece.size(); ++at) {
    unsigned character = static_cast<unsigned char>(piece[at]);
    if (character >= 0xE0) {
      return std::nullopt;
    }
    if (character >= 0x80) {
      if (++at == piece.size()) {
        return std::nullopt;
      }
      character = (character & 31) << 6 | (static_cast<unsigned char>(piece[at]) & 63);
    }
    if (character >= kAlphabetEnd || kAlphabet.bytes[character] < 0) {
      return std::nullopt;
    }
    bytes += static_cast<char>(kAlphabet.bytes[character]);
  }
  return bytes;
}

}  // namespace darkformer
