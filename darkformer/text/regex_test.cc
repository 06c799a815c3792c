// Patterns of tokenizer files: what they match, and what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/regex.h"

#include <gtest/gtest.h>

#include "darkformer/base/error.h"
#include "darkformer/text/text_split.h"

namespace darkformer::regex_test {
namespace {

using Words = std::vector<std::string>;

Words split(const TextSplit& how, std::string_view text) {
  Words words;
  TextSplitter(how).split(text, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

std::string error_of(const std::string& pattern, const std::string& text = "") {
  try {
    RegexSearch search(Regex(pattern, "a.json"));
    RegexMatch match;
    search.find(text, 0, match);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Regex, KnowsUnicodesClasses) {
  const TextSplit letters{.pattern = Regex("\\p{L}+", "x")};
  EXPECT_EQ(split(letters, "Größe 東京7!"), (Words{"Größe", " ", "東京", "7!"}));
  const TextSplit spaces{.pattern = Regex("\\s", "x")};
  EXPECT_EQ(split(spaces, "a\u3000b\u180ec\u0085d"),
            (Words{"a", "\u3000", "b\u180ec", "\u0085", "d"}));
  const TextSplit others{.pattern = Regex("[^\\s\\w]+", "x")};
  EXPECT_EQ(split(others, "a_\u0301?!b c"), (Words{"a_\u0301", "?!", "b c"}));
  const TextSplit folded{.pattern = Regex("(?i:'s)", "x")};
  EXPECT_EQ(split(folded, "it'S"), (Words{"it", "'S"}));
  EXPECT_EQ(split({.pattern = Regex("[]a]+", "x")}, "b]ab"), (Words{"b", "]a", "b"}));
}

TEST(TextSplit, BehavesAsItsNameSays) {
  const auto by_dash = [](SplitBehaviour behaviour, bool invert = false) {
    return split({.literal = "-", .behaviour = behaviour, .invert = invert},
                 "the-final--countdown");
  };
  EXPECT_EQ(by_dash(SplitBehaviour::kIsolated),
            (Words{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(by_dash(SplitBehaviour::kRemoved), (Words{"the", "final", "countdown"}));
  EXPECT_EQ(by_dash(SplitBehaviour::kRemoved, true), (Words{"-", "-", "-"}));
  EXPECT_EQ(by_dash(SplitBehaviour::kMergedWithPrevious),
            (Words{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(by_dash(SplitBehaviour::kMergedWithNext), (Words{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(by_dash(SplitBehaviour::kContiguous), (Words{"the", "-", "final", "--", "countdown"}));
}

TEST(Regex, RefusesWhatItWouldReadDifferently) {
  EXPECT_NE(error_of("a(").find("a.json: the pattern 'a(' cannot be read"), std::string::npos);
  EXPECT_NE(error_of("[a-z&&[^b]]").find("brackets"), std::string::npos);
  EXPECT_NE(error_of("\\h+").find("\\h"), std::string::npos);
  EXPECT_NE(error_of("a\\").find("backslash"), std::string::npos);
  EXPECT_NE(error_of("\xFF").find("UTF-8"), std::string::npos);
  EXPECT_NE(error_of("\\p{Nonsense}").find("cannot be read"), std::string::npos);
  EXPECT_NE(error_of(std::string(9000, 'a')).find("9000 bytes"), std::string::npos);
  EXPECT_NE(error_of(std::string(100, '(') + std::string(100, ')')).find("cannot be read"),
            std::string::npos);
  for (const char* pattern : {"a(", "\\h+", "[[a]]", "(?<=a*)b", "\n("}) {
    EXPECT_EQ(error_of(pattern).find('\n'), std::string::npos);
  }
}

TEST(Regex, HostilePatternsEnd) {
  const std::string message = error_of("(a+)+$", std::string(40, 'a') + "b");
  EXPECT_TRUE(message == "no error" || message.find("cannot be searched") != std::string::npos);
  EXPECT_NE(error_of("(a|aa|b?a)*[^ab]", std::string(5000, 'a')).find("cannot be searched"),
            std::string::npos);
}

TEST(Regex, LongRunsTakeLittleTime) {
  const TextSplit llama{.pattern =
                            Regex("(?i:'s|'t)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
                                  " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
                                  "x")};
  for (const char* unit : {" ", "a", "\n", "!", "\t ", "\u00e9"}) {
    std::string text;
    while (text.size() < 1 << 21) {
      text += unit;
    }
    EXPECT_EQ(split(llama, text + "b").size(), unit[0] == 'a' || unit[0] == '\xC3' ? 1U : 2U);
  }
}

}  // namespace
}  // namespace darkformer::regex_test
