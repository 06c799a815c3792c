// The place of a rank from the environment, and what is said of half an environment.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/training/rank_place.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "darkformer/base/error.h"

namespace darkformer::rank_place_test {
namespace {

class RankPlaceTest : public ::testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }

  static void clear() {
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
                             "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE"}) {
      unsetenv(name);
    }
  }
  static void set(const char* name, const char* value) { setenv(name, value, 1); }

  static std::string complaint() {
    try {
      rank_place();
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  }
};

TEST_F(RankPlaceTest, NoVariablesMeanOneProcess) {
  EXPECT_FALSE(rank_place().has_value());
  set("RANK", "0");
  set("WORLD_SIZE", "1");
  EXPECT_FALSE(rank_place().has_value());
}

TEST_F(RankPlaceTest, TakesWhatLaunchersSet) {
  set("RANK", "5");
  set("WORLD_SIZE", "8");
  set("MASTER_ADDR", "node-0");
  set("MASTER_PORT", "29500");
  auto place = rank_place();
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->rank, 5);
  EXPECT_EQ(place->ranks, 8);
  EXPECT_EQ(place->local_rank, 0);
  EXPECT_EQ(place->host, "node-0");
  EXPECT_EQ(place->port, 29500);
  EXPECT_FALSE(place->store_given);
  set("LOCAL_RANK", "1");
  set("LOCAL_WORLD_SIZE", "4");
  set("TORCHELASTIC_USE_AGENT_STORE", "True");
  place = rank_place();
  EXPECT_EQ(place->local_rank, 1);
  EXPECT_EQ(place->local_ranks, 4);
  EXPECT_TRUE(place->store_given);
  set("LOCAL_WORLD_SIZE", "9");
  EXPECT_EQ(complaint(), "LOCAL_WORLD_SIZE is 9, but WORLD_SIZE is 8");
  set("LOCAL_WORLD_SIZE", "4");
  set("LOCAL_RANK", "4");
  EXPECT_EQ(complaint(), "LOCAL_RANK is 4, but LOCAL_WORLD_SIZE is 4");
}

TEST_F(RankPlaceTest, NamesWhatIsMissingOrWrong) {
  set("RANK", "1");
  EXPECT_NE(complaint().find("only RANK is set"), std::string::npos) << complaint();
  set("WORLD_SIZE", "1");
  EXPECT_NE(complaint().find("RANK is 1, but WORLD_SIZE is 1"), std::string::npos) << complaint();
  set("WORLD_SIZE", "2");
  EXPECT_NE(complaint().find("MASTER_ADDR is not set"), std::string::npos) << complaint();
  set("MASTER_ADDR", "here");
  EXPECT_NE(complaint().find("MASTER_PORT is not set"), std::string::npos) << complaint();
  set("MASTER_PORT", "70000");
  EXPECT_NE(complaint().find("at most 65535"), std::string::npos) << complaint();
  set("MASTER_PORT", "x");
  EXPECT_NE(complaint().find("MASTER_PORT is 'x'"), std::string::npos) << complaint();
}

}  // namespace
}  // namespace darkformer::rank_place_test
