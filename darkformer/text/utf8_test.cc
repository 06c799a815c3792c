// UTF-8: every code point passes, every malformed kind is found at its byte.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace darkformer::utf8_test {
namespace {

std::string encode(unsigned code) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) {
    return {static_cast<char>(code)};
  }
  if (code < 0x800) {
    return {static_cast<char>(0xC0 | (code >> 6)), tail(0)};
  }
  if (code < 0x10000) {
    return {static_cast<char>(0xE0 | (code >> 12)), tail(6), tail(0)};
  }
  return {static_cast<char>(0xF0 | (code >> 18)), tail(12), tail(6), tail(0)};
}

TEST(Utf8, EveryCodePointButTheSurrogates) {
  for (unsigned code = 0; code < 0x110000; ++code) {
    const bool surrogate = code >= 0xD800 && code < 0xE000;
    ASSERT_EQ(is_utf8(encode(code)), !surrogate) << std::hex << code;
  }
  EXPECT_FALSE(is_utf8(encode(0x110000)));
}

TEST(Utf8, MalformedSequencesAreFoundWhereTheyStart) {
  const std::string cases[] = {"\x80",
                               "\xBF",
                               "\xC0\x80",
                               "\xC1\xBF",
                               "\xC3",
                               "\xC3(",
                               "\xE0\x80\x80",
                               "\xE2\x82",
                               "\xED\xA0\x80",
                               "\xE2(\xA1",
                               "\xF0\x80\x80\x80",
                               "\xF0\x9F\x98",
                               "\xF4\x90\x80\x80",
                               "\xF5\x80\x80\x80",
                               "\xFF",
                               "\xFE"};
  for (const std::string& bad : cases) {
    for (std::size_t before = 0; before < 20; ++before) {
      const std::string text = std::string(before, 'a') + bad + "tail of text";
      EXPECT_EQ(find_invalid_utf8(text), before) << "after " << before << " letters";
      EXPECT_EQ(find_invalid_utf8(std::string(before, 'a') + bad), before);
    }
  }
}

TEST(Utf8, MixedTextOfEveryLength) {
  std::string text;
  for (int i = 0; i < 40; ++i) {
    EXPECT_TRUE(is_utf8(text));
    text += i % 3 == 0 ? "\xC3\xA9" : i % 5 == 0 ? "\xF0\x9F\x98\x80" : "plain";
  }
}

TEST(Utf8, ReplacesEachBrokenStartOnce) {
  EXPECT_EQ(replace_invalid_utf8("plain \u00e9"), "plain \u00e9");
  EXPECT_EQ(replace_invalid_utf8("a\xFFz"), "a\uFFFDz");
  EXPECT_EQ(replace_invalid_utf8("\xE2\x82"), "\uFFFD");
  EXPECT_EQ(replace_invalid_utf8("\xF0\x9F\x98x"), "\uFFFDx");
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(replace_invalid_utf8("\xC0\xAF"), "\uFFFD\uFFFD");            // overlong
  EXPECT_EQ(replace_invalid_utf8("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
}

TEST(Utf8, CodePointsAndWhiteSpace) {
  EXPECT_EQ(code_point("a"), U'a');
  EXPECT_EQ(code_point("\u00e9x"), U'\u00e9');
  EXPECT_EQ(code_point("\u6771"), U'\u6771');
  EXPECT_EQ(code_point("\U0001F600"), U'\U0001F600');
  EXPECT_TRUE(is_white_space(0x3000));
  EXPECT_FALSE(is_white_space(0x180E));
}

}  // namespace
}  // namespace darkformer::utf8_test
