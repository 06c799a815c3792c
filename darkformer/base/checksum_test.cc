// XXH64 against values of the reference library, in one piece and in many.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/checksum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace darkformer::checksum_test {
namespace {

struct Known {
  std::size_t size;
  std::uint64_t seed;
  std::uint64_t value;
};

// Made with libxxhash 0.8.1 over the bytes (7 i + 3) mod 256: every branch of the tail and of the
// stripes.
constexpr Known kKnown[] = {
    {0, 0, 0xef46db3751d8e999},    {0, 42, 0x98b1582b0977e704},  {1, 0, 0x1f25c8d0bc1f4bb6},
    {1, 42, 0x4d71bef0290052db},   {3, 0, 0x31d2363f52e564c9},   {3, 42, 0xbf4dd3c814a1fb9e},
    {4, 0, 0x9bb64b7d66ee9fda},    {4, 42, 0xbcb54295ab591e0d},  {7, 0, 0x9a7b149959ce60d8},
    {7, 42, 0x9ce59c3ac76ffc9d},   {8, 0, 0xdab99d95c6f90092},   {8, 42, 0x9fe8789ac2a1a649},
    {11, 0, 0x7a52cc9457cf1a1f},   {11, 42, 0x3a89a72f527682ca}, {12, 0, 0xd52e407833af5133},
    {12, 42, 0x67114e891b0ae1a6},  {31, 0, 0xa2aa5f33cc4a6119},  {31, 42, 0x10ab8a7706d8ba37},
    {32, 0, 0x23c3c17ef790fd97},   {32, 42, 0x232e8071e826d4bf}, {33, 0, 0x50a7cfc7ba588784},
    {33, 42, 0x9d08407e35697b1f},  {63, 0, 0x5e3e54b431c7493c},  {63, 42, 0x052fa6d3609a695f},
    {64, 0, 0x0eb64b3ef6eeb01f},   {64, 42, 0xdf21b2dd545076e0}, {100, 0, 0xa61f8d4c170fe531},
    {100, 42, 0x7dd00be8513c25a2}, {257, 0, 0xb7b604f7e4f822fa}, {257, 42, 0x9176325d7efc1274},
};

std::string bytes(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) {
    text[i] = static_cast<char>(7 * i + 3);
  }
  return text;
}

TEST(Checksum, AgreesWithTheReferenceLibrary) {
  for (const Known& known : kKnown) {
    EXPECT_EQ(checksum(bytes(known.size), known.seed), known.value)
        << known.size << " bytes, seed " << known.seed;
  }
}

TEST(Checksum, PiecesDoNotMatter) {
  const std::string text = bytes(1000);
  const std::uint64_t whole = checksum(text);
  for (const std::size_t piece : {1, 5, 31, 32, 33, 64, 999}) {
    Checksum sum;
    for (std::size_t i = 0; i < text.size(); i += piece) {
      sum.update(text.data() + i, std::min(piece, text.size() - i));
      EXPECT_EQ(sum.value(), checksum(text.substr(0, i + piece)));
    }
    EXPECT_EQ(sum.value(), whole) << "pieces of " << piece;
  }
}

TEST(Checksum, EveryFlippedBitShows) {
  std::string text = bytes(70);
  const std::uint64_t whole = checksum(text);
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    text[bit / 8] ^= static_cast<char>(1 << bit % 8);
    EXPECT_NE(checksum(text), whole) << "bit " << bit;
    text[bit / 8] ^= static_cast<char>(1 << bit % 8);
  }
}

TEST(Checksum, Hexadecimal) {
  EXPECT_EQ(to_hex(0), "0000000000000000");
  EXPECT_EQ(to_hex(0x0123456789abcdef), "0123456789abcdef");
}

TEST(KeyBuilder, PartsDoNotRunTogether) {
  const std::uint64_t key = KeyBuilder().add("ab").add("c").add(7).value();
  EXPECT_EQ(KeyBuilder().add("ab").add("c").add(7).value(), key);
  EXPECT_NE(KeyBuilder().add("a").add("bc").add(7).value(), key);
  EXPECT_NE(KeyBuilder().add("ab").add("c").add(8).value(), key);
}

}  // namespace
}  // namespace darkformer::checksum_test
