// Rotations of config.json that cannot be are refused under the names that the file gives them.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/rope_json.h"

#include <gtest/gtest.h>

#include "darkformer/base/error.h"
#include "darkformer/model/model_config.h"

namespace darkformer::rope_json_test {
namespace {

std::string error_of(const std::string& text) {
  try {
    parse_model_config(text, "config.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

void expect_start(const std::string& text, const std::string& start) {
  EXPECT_TRUE(error_of(text).starts_with(start)) << text << "\n" << error_of(text);
}

constexpr const char* kOriginal = "original_max_position_embeddings";

std::string llama_with(const char* key, const OrderedJson& rope) {
  return OrderedJson{{"model_type", "llama"}, {key, rope}}.dump();
}

TEST(RopeJson, ErrorsNameTheObjectOfTheFile) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const std::string where = std::string("config.json: ") + key;
    const OrderedJson linear = {{"rope_type", "linear"}, {"factor", 2}},
                      llama3 = {{"rope_type", "llama3"},
                                {"factor", 2},
                                {kOriginal, 64},
                                {"low_freq_factor", 1},
                                {"high_freq_factor", 4}},
                      yarn = {{"rope_type", "yarn"}, {"factor", 2}, {kOriginal, 64}};
    const auto expect = [&](OrderedJson rope, const char* field, const OrderedJson& value) {
      EXPECT_EQ(error_of(llama_with(key, rope)), "no error") << rope;
      rope[field] = value;
      expect_start(llama_with(key, rope), where + ": \"" + field + "\"");
    };
    expect(linear, "factor", 0);
    expect(linear, "factor", -8);
    expect(linear, "factor", "8");
    expect(linear, "factor", nullptr);
    expect(linear, "rope_theta", 0);
    expect(linear, "rope_theta", "1e4");
    expect(linear, "partial_rotary_factor", 0.5);
    expect(linear, "rope_type", "longrope");
    expect(llama3, "low_freq_factor", 0);
    expect(llama3, "high_freq_factor", 1);
    expect(llama3, kOriginal, -1);
    expect(yarn, "beta_slow", 0);
    expect(yarn, "beta_fast", 0.5);
    expect(yarn, "attention_factor", 0);
    expect(yarn, "truncate", 1);
  }
}

TEST(RopeJson, ErrorsNameThePartOfEachKindOfLayer) {
  for (const std::string part : {"full_attention", "sliding_attention"}) {
    const OrderedJson both = {{part, {{"rope_theta", 0}}}};
    expect_start(OrderedJson{{"model_type", "gemma3_text"}, {"rope_parameters", both}}.dump(),
                 "config.json: rope_parameters." + part + ": \"rope_theta\" is 0");
  }
}

TEST(RopeJson, ErrorsNameTheBasesOutside) {
  expect_start(R"({"model_type": "llama", "rope_theta": 0,
                   "rope_scaling": {"rope_type": "linear", "factor": 2}})",
               "config.json: \"rope_theta\" is 0");
  expect_start(R"({"model_type": "gemma3_text", "rope_local_base_freq": -1})",
               "config.json: \"rope_local_base_freq\" is -1");
}

TEST(RopeJson, NoKindTakesZeroOriginalPositions) {
  for (const char* kind : {"default", "linear", "dynamic", "llama3", "yarn"}) {
    for (const int positions : {0, -1}) {
      const OrderedJson rope = {{"rope_type", kind}, {"factor", 2}, {kOriginal, positions}};
      expect_start(
          llama_with("rope_scaling", rope),
          concat("config.json: rope_scaling: \"", kOriginal, "\" is ", positions, "; wanted 1"));
    }
  }
}

// Where the object has none the model's own positions are taken, and blamed.
TEST(RopeJson, PositionsOfTheModelAreBlamedForThemselves) {
  for (const char* kind : {"dynamic", "llama3", "yarn"}) {
    const OrderedJson rope = {{"rope_type", kind}, {"factor", 2}};
    expect_start(
        OrderedJson{{"model_type", "llama"}, {"max_position_embeddings", 0}, {"rope_scaling", rope}}
            .dump(),
        "config.json: \"max_position_embeddings\" is 0");
  }
}

}  // namespace
}  // namespace darkformer::rope_json_test
