// JSON files: errors name file, line and key.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "darkformer/base/scratch_folder.h"

namespace darkformer::json_test {
namespace {

std::string error_of(const auto& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Json, ParseErrorNamesFileLineAndColumn) {
  const std::string text = "{\n  \"a\": 1,\n  \"b\": oops\n}";
  const std::string message = error_of([&] { parse_json(text, "dir/config.json"); });
  EXPECT_EQ(message.rfind("dir/config.json:3:8: not valid JSON: ", 0), 0U) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_EQ(message.find("json.exception"), std::string::npos) << message;
}

TEST(Json, EmptyAndCutTextsAreErrors) {
  for (const std::string text : {"", "{", "[1,", "\"abc", "{\"a\": 1} x", "1e999"}) {
    EXPECT_THROW(parse_json(text, "f"), Error) << text;
    EXPECT_THROW(parse_ordered_json(text, "f"), Error) << text;
  }
}

TEST(Json, NumbersBeyondADoubleAreErrors) {
  EXPECT_NE(error_of([&] { parse_json("[1e999]", "f"); }).find("f: not valid JSON: "),
            std::string::npos);
}

TEST(Json, TooDeepIsAnErrorBeforeItCostsMemory) {
  const std::string brackets(1000000, '[');
  EXPECT_NE(error_of([&] { parse_json(brackets, "f"); }).find("nested deeper"), std::string::npos);
  EXPECT_NO_THROW(parse_json("[\"" + brackets + "\\\"" + brackets + "\"]", "f"));
}

TEST(Json, FilterSeesAndLeavesOut) {
  const Json kept = parse_filtered_json(
      R"({"a": [1, 2, 3], "b": 4})", "f",
      [](int depth, Json::parse_event_t, const Json& value) { return depth != 2 || value != 2; });
  EXPECT_EQ(kept, Json::parse(R"({"a": [1, 3], "b": 4})"));
  EXPECT_THROW(parse_filtered_json("[1", "f", [](int, auto, const Json&) { return true; }), Error);
}

TEST(Json, MissingFileAndFolderAreErrors) {
  const ScratchFolder folder;
  EXPECT_EQ(
      error_of([&] { read_json(folder.path() / "none.json"); }),
      (folder.path() / "none.json").string() + ": cannot be opened: No such file or directory");
  EXPECT_NE(error_of([&] { read_json(folder.path()); }).find("folder"), std::string::npos);
}

TEST(Json, RoundTripKeepsTheOrderOfKeys) {
  const ScratchFolder folder;
  const auto file = folder.path() / "a.json";
  OrderedJson value;
  value["zeta"] = 1;
  value["alpha"] = {1.5, true, nullptr, "é"};
  write_json(file, value);
  EXPECT_EQ(read_ordered_json(file), value);
  EXPECT_EQ(read_ordered_json(file).dump(), R"({"zeta":1,"alpha":[1.5,true,null,"é"]})");
  EXPECT_EQ(read_json(file).begin().key(), "alpha");
}

TEST(Json, ValuesAreCheckedByType) {
  const Json object = parse_json(
      R"({"heads": 8, "rate": 1e-3, "name": "gemma", "tied": true, "none": null, "list": [1, 2]})",
      "c.json");
  EXPECT_EQ(get_value<std::int64_t>(object, "heads", "c.json"), 8);
  EXPECT_EQ(get_value<double>(object, "heads", "c.json"), 8.0);
  EXPECT_EQ(get_value<std::string>(object, "name", "c.json"), "gemma");
  EXPECT_TRUE(get_value<bool>(object, "tied", "c.json"));
  EXPECT_EQ(get_value<std::vector<int>>(object, "list", "c.json"), (std::vector<int>{1, 2}));
  EXPECT_FALSE(find_value<double>(object, "none", "c.json"));
  EXPECT_FALSE(find_value<double>(object, "absent", "c.json"));
  EXPECT_EQ(error_of([&] { get_value<bool>(object, "absent", "c.json"); }),
            "c.json: \"absent\" is missing");
  EXPECT_EQ(error_of([&] { get_value<std::int64_t>(object, "rate", "c.json"); }),
            "c.json: \"rate\" must be a whole number, but it is of type number");
  EXPECT_EQ(error_of([&] { find_value<std::string>(object, "heads", "c.json"); }),
            "c.json: \"heads\" must be a string, but it is of type number");
  EXPECT_THROW((get_value<std::vector<int>>(object, "name", "c.json")), Error);
}

}  // namespace
}  // namespace darkformer::json_test
