// Layers on the command line.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/layer_list.h"

#include <gtest/gtest.h>

#include "darkformer/base/error.h"

namespace darkformer::layer_list_test {
namespace {

using Layers = std::vector<std::int64_t>;

TEST(LayerList, Parses) {
  EXPECT_EQ(parse_layers("--layers", {"0,3-5"}, 8), (Layers{0, 3, 4, 5}));
  EXPECT_EQ(parse_layers("--layers", {"5", "1", "5-5"}, 8), (Layers{1, 5}));
  EXPECT_EQ(parse_layers("--layers", {"all"}, 3), (Layers{0, 1, 2}));
  EXPECT_EQ(parse_layers("--layers", {}, 3), Layers{});
}

TEST(LayerList, Refuses) {
  for (const char* text :
       {"8", "3-8", "x", "-1", "3-", "5-3", "1.5", "1-2-3", "99999999999999999999"}) {
    EXPECT_THROW(parse_layers("--layers", {text}, 8), UsageError) << text;
  }
}

TEST(LayerList, Prints) {
  EXPECT_EQ(layer_ranges({0, 1, 2, 5, 7, 8}), "0-2, 5, 7-8");
  EXPECT_EQ(layer_ranges({}), "");
}

}  // namespace
}  // namespace darkformer::layer_list_test
