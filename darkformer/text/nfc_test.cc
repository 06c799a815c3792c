// Form C against what Unicode's rules say of chosen characters, and in its properties.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/nfc.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <memory>
#include <random>

#include "darkformer/text/tokenizer_samples.h"

namespace darkformer::nfc_test {
namespace {

std::string nfc(std::string_view text) {
  std::string out;
  return std::string(to_nfc(text, out));
}

// utf8proc's own whole-text function: slow on long runs of accents, hence not what we use.
std::string library_nfc(const std::string& text) {
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> out(
      utf8proc_NFC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str())), &std::free);
  return reinterpret_cast<const char*>(out.get());
}

TEST(Nfc, ComposesOrdersAndLeavesExclusions) {
  EXPECT_EQ(nfc("e\u0301a\u0308"), "\u00e9\u00e4");
  EXPECT_EQ(nfc("q\u0307\u0323"), "q\u0323\u0307");  // ordered by class
  EXPECT_EQ(nfc("\u1e0b\u0323"), "\u1e0d\u0307");    // taken apart, ordered, composed
  EXPECT_EQ(nfc("\u212b\u2126"), "\u00c5\u03a9");    // singletons
  EXPECT_EQ(nfc("\u0958"), "\u0915\u093c");          // never composed
  EXPECT_EQ(nfc("\u1100\u1161\u11a8"), "\uac01");    // Hangul
  EXPECT_EQ(nfc("\uac00\u11a8"), "\uac01");
  EXPECT_EQ(nfc("\u304b\u3099"), "\u304c");
  EXPECT_EQ(nfc("x\u0344"), "\u1e8d\u0301");
  EXPECT_EQ(nfc("\u0301e"), "\u0301e");
}

TEST(Nfc, LeavesPlainTextWhereItIs) {
  const std::string text = sample_text() + "\u6771\u4eac \U0001F600";
  std::string out;
  EXPECT_EQ(to_nfc(text, out).data(), text.data());
  EXPECT_EQ(nfc(""), "");
}

TEST(Nfc, IsWhatTheLibraryGivesAnyText) {
  std::mt19937 random(4);
  const std::vector<std::pair<unsigned, unsigned>> ranges = {
      {'a', 26},       {0xC0, 0x60},    {0x300, 0x70},  {0x0590, 0x40},  {0x0900, 0x60},
      {0x1100, 0x100}, {0xAC00, 0x200}, {0x3040, 0xC0}, {0x1E00, 0x200}, {0xF900, 0x200}};
  for (int i = 0; i < 5000; ++i) {
    std::string text;
    for (int j = 0; j < 12; ++j) {
      const auto [begin, count] = ranges[random() % ranges.size()];
      append_character(begin + random() % count, text);
    }
    ASSERT_EQ(nfc(text), library_nfc(text)) << text;
    ASSERT_EQ(nfc(nfc(text)), nfc(text));
  }
  for (char32_t c = 1; c < 0x30000; ++c) {
    if (c < 0xD800 || c > 0xDFFF) {
      std::string text = "a";
      append_character(c, text);
      text += "\u0301";
      ASSERT_EQ(nfc(text), library_nfc(text)) << static_cast<unsigned>(c);
    }
  }
}

TEST(Nfc, LongRunsOfAccentsTakeLittleTime) {
  std::string text = "a";
  for (int i = 0; i < 300000; ++i) {
    text += i % 2 == 0 ? "\u0307" : "\u0323";
  }
  const std::string composed = nfc(text);
  EXPECT_TRUE(composed.starts_with("\u1ea1\u0323"));
  EXPECT_TRUE(composed.ends_with("\u0307\u0307"));
}

}  // namespace
}  // namespace darkformer::nfc_test
