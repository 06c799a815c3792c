// Shape lines: ids, sizes, defaults, errors.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/shape_file.h"

#include <gtest/gtest.h>

#include "darkformer/base/error.h"

namespace darkformer::shape_file_test {
namespace {

TEST(ShapeLine, ReadsSizesAndFlags) {
  const ShapeLine line("B2 T65  window16 full");
  EXPECT_EQ(line.id(), "B2_T65_window16_full");
  EXPECT_EQ(line.size("B"), 2U);
  EXPECT_EQ(line.size("window"), 16U);
  EXPECT_EQ(line.size("H"), 0U);
  EXPECT_EQ(line.size("H", 3), 3U);
  EXPECT_TRUE(line.flag("full"));
  EXPECT_FALSE(line.flag("causal"));
}

TEST(ShapeLine, RefusesOtherWords) {
  for (const char* text : {"B2 7", "B-1", "B2x", "B1.5", "B12345678901"}) {
    EXPECT_THROW(ShapeLine{text}, Error) << text;
  }
  EXPECT_THROW(read_shapes("/nonexistent/shapes.txt"), Error);
}

}  // namespace
}  // namespace darkformer::shape_file_test
