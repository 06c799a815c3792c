// One of a thing, and any other number of it.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/count_text.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace darkformer::count_text_test {
namespace {

TEST(CountText, OnlyOneIsSingular) {
  EXPECT_EQ(count_text(1, "token"), "1 token");
  EXPECT_EQ(count_text(0, "token"), "0 tokens");
  EXPECT_EQ(count_text(2, "token"), "2 tokens");
  EXPECT_EQ(count_text(-1, "token"), "-1 tokens");
  EXPECT_EQ(count_text(std::uint64_t{18446744073709551615U}, "byte"), "18446744073709551615 bytes");
}

TEST(CountText, NounsWithAPluralOfTheirOwn) {
  EXPECT_EQ(count_text(1, "entry", "entries"), "1 entry");
  EXPECT_EQ(count_text(3, "entry", "entries"), "3 entries");
}

}  // namespace
}  // namespace darkformer::count_text_test
