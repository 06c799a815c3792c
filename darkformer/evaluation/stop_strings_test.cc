// Stop strings cut however the text arrives.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/stop_strings.h"

#include <gtest/gtest.h>

#include "darkformer/base/error.h"

namespace darkformer::stop_strings_test {
namespace {

struct Outcome {
  std::string text;
  bool stopped;
  bool operator==(const Outcome&) const = default;
};

// Feeds the text in pieces of `size` bytes; nothing that came out may be taken back.
Outcome feed(const std::vector<std::string>& stops, const std::string& text, std::size_t size) {
  StopStrings filter(stops);
  std::string out;
  for (std::size_t at = 0; at < text.size() && !filter.stopped(); at += size) {
    out += filter.push(text.substr(at, size));
  }
  out += filter.finish();
  return {out, filter.stopped()};
}

TEST(StopStrings, CutBeforeTheFirstOneHoweverItArrives) {
  for (std::size_t size = 1; size < 12; ++size) {
    SCOPED_TRACE(size);
    EXPECT_EQ(feed({}, "some text", size), (Outcome{"some text", false}));
    EXPECT_EQ(feed({"END"}, "the ENDING", size), (Outcome{"the ", true}));
    EXPECT_EQ(feed({"END"}, "the EN", size), (Outcome{"the EN", false}));
    EXPECT_EQ(feed({"END"}, "EENEND", size), (Outcome{"EEN", true}));
    EXPECT_EQ(feed({"\n\n", "x"}, "a\nb\n\nc", size), (Outcome{"a\nb", true}));
    EXPECT_EQ(feed({"aab"}, "aaab", size), (Outcome{"a", true}));
  }
}

TEST(StopStrings, LetCertainTextThroughAtOnce) {
  StopStrings filter({"END"});
  EXPECT_EQ(filter.push("abc"), "abc");
  EXPECT_EQ(filter.push("dE"), "d");
  EXPECT_EQ(filter.push("N"), "");
  EXPECT_EQ(filter.push("e"), "ENe");
}

TEST(StopStrings, RefuseAnEmptyOne) {
  EXPECT_THROW(StopStrings({""}), Error);
}

}  // namespace
}  // namespace darkformer::stop_strings_test
