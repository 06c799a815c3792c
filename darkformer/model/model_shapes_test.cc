// The sizes by name have the parameters they are known for.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/model_shapes.h"

#include <gtest/gtest.h>

#include <map>

namespace darkformer::model_shapes_test {
namespace {

TEST(ModelShapes, HaveTheirParameters) {
  const std::map<std::string, std::int64_t> known = {
      {"gemma-2b", 2'506'172'416},     {"gemma-7b", 8'537'680'896},
      {"gemma-2-2b", 2'614'341'888},   {"gemma-2-9b", 9'241'705'984},
      {"gemma-2-27b", 27'227'128'320}, {"gemma-3-270m", 268'098'176},
      {"gemma-3-1b", 999'885'952},     {"gemma-3-4b", 3'880'263'168},
      {"gemma-3-12b", 11'766'034'176}, {"gemma-3-27b", 27'009'346'304}};
  for (const auto& [name, parameters] : known) {
    const auto config = find_model_shape(name);
    ASSERT_TRUE(config.has_value()) << name;
    check_model_config(*config, name);
    EXPECT_EQ(parameter_count(*config), parameters) << name;
    EXPECT_NE(model_shape_names().find(name), std::string::npos);
  }
}

TEST(ModelShapes, OtherNamesAreNone) {
  EXPECT_FALSE(find_model_shape("gemma-3b").has_value());
}

}  // namespace
}  // namespace darkformer::model_shapes_test
