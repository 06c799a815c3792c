// Nearest names: slips of the finger are found, strangers are not.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/nearest_name.h"

#include <gtest/gtest.h>

namespace darkformer::nearest_name_test {
namespace {

const std::vector<std::string> kNames = {"info", "convert", "linearize", "generate", "completion"};

TEST(NearestName, CountsEdits) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("abcd", "abdc"), 1U);
}

TEST(NearestName, FindsSlips) {
  EXPECT_EQ(nearest_name("convret", kNames), "convert");
  EXPECT_EQ(nearest_name("linearise", kNames), "linearize");
  EXPECT_EQ(nearest_name("inof", kNames), "info");
  EXPECT_EQ(nearest_name("gen", kNames), "generate");
}

TEST(NearestName, LeavesStrangersAlone) {
  EXPECT_EQ(nearest_name("frobnicate", kNames), "");
  EXPECT_EQ(nearest_name("", kNames), "");
  EXPECT_EQ(nearest_name("xy", kNames), "");
  EXPECT_EQ(did_you_mean("xyz", kNames), "");
  EXPECT_EQ(did_you_mean("inf", kNames), "; did you mean 'info'?");
}

}  // namespace
}  // namespace darkformer::nearest_name_test
