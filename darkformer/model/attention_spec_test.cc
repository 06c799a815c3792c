// Attention options as JSON, and the ones that make no sense.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/attention_spec.h"

#include <gtest/gtest.h>

#include "darkformer/base/error.h"
#include "darkformer/model/attention_spec_json.h"

namespace darkformer::attention_spec_test {
namespace {

AttentionSpec read(const std::string& text) {
  return read_attention_spec(OrderedJson::parse(text), 16, "layers[0]");
}

std::string error_of(const std::string& text) {
  try {
    read(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(AttentionSpec, NamesAndBack) {
  for (int i = 0; i <= static_cast<int>(AttentionKind::kRandom); ++i) {
    const auto kind = static_cast<AttentionKind>(i);
    EXPECT_EQ(find_attention_kind(attention_kind_name(kind)), kind);
  }
  EXPECT_EQ(attention_kind_name(AttentionKind::kDark), "dark");
  EXPECT_EQ(attention_kind_name(AttentionKind::kRandom), "random");
  EXPECT_EQ(find_attention_kind("softmax"), std::nullopt);
}

TEST(AttentionSpec, ParametersOfKinds) {
  EXPECT_FALSE(has_features(AttentionKind::kConstant));
  EXPECT_TRUE(has_features(AttentionKind::kLfk));
  EXPECT_TRUE(has_factor(AttentionKind::kDark));
  EXPECT_FALSE(has_factor(AttentionKind::kPerformer));
  EXPECT_TRUE(has_key_factor({.kind = AttentionKind::kAderf}));
  EXPECT_FALSE(has_key_factor({.kind = AttentionKind::kDark}));
  EXPECT_TRUE(has_log_weights(AttentionKind::kImportance));
  EXPECT_FALSE(has_log_weights(AttentionKind::kDark));
  EXPECT_TRUE(has_key_factor({.kind = AttentionKind::kHedgehog}));
  EXPECT_FALSE(has_draws(AttentionKind::kHedgehog));
}

TEST(AttentionSpec, ReadsAndWritesTheDocumentedForm) {
  const std::string text =
      R"({"attention":"dark","features":256,"rank":8,"placement":"kv-head","rope":"after",)"
      R"("window":0,"sinks":0,"orthogonal":true})";
  const AttentionSpec spec = read(text);
  EXPECT_EQ(spec.kind, AttentionKind::kDark);
  EXPECT_EQ(spec.features, 256);
  EXPECT_EQ(spec.rank, 8);
  EXPECT_EQ(attention_spec_json(spec).dump(), text);
  EXPECT_EQ(attention_spec_json(AttentionSpec{}).dump(), R"({"attention":"exact"})");
  const std::string near =
      R"({"attention":"dark","features":256,"rank":8,"placement":"kv-head","rope":"after",)"
      R"("window":4,"sinks":0,"near_kernel":"model","orthogonal":true})";
  EXPECT_EQ(attention_spec_json(read(near)).dump(), near);
  EXPECT_EQ(read(text).near, NearKernel::kFactor);  // folders from before there was a choice
  const std::string window = R"({"attention":"window","window":16})";
  EXPECT_EQ(attention_spec_json(read(window)).dump(), window);
}

TEST(AttentionSpec, EveryOptionSurvives) {
  for (const Placement placement : {Placement::kKvHead, Placement::kQueryHead, Placement::kLayer}) {
    for (const RopeOrder rope : {RopeOrder::kAfter, RopeOrder::kBefore}) {
      if (rope == RopeOrder::kBefore && placement == Placement::kQueryHead) {
        continue;
      }
      const AttentionSpec spec{
          .kind = AttentionKind::kDark,
          .features = 3,
          .rank = rope == RopeOrder::kBefore ? 16 : 5,
          .placement = placement,
          .rope = rope,
          .window = 7,
          .sinks = 2,
          .near = rope == RopeOrder::kBefore ? NearKernel::kFactor : NearKernel::kModel,
          .far = FarKeys::kAll,
          .orthogonal = false,
          .centre = true,
          .gate = true};
      EXPECT_EQ(read(attention_spec_json(spec).dump()), spec);
    }
  }
  EXPECT_EQ(read(R"({"attention":"random"})"), AttentionSpec{.kind = AttentionKind::kRandom});
  EXPECT_EQ(read(R"({"attention":"performer","features":4})").rank, 16);
  const AttentionSpec hedgehog{.kind = AttentionKind::kHedgehog,
                               .features = 12,
                               .rank = 16,
                               .window = 4,
                               .near = NearKernel::kModel};
  EXPECT_EQ(read(attention_spec_json(hedgehog).dump()), hedgehog);
  EXPECT_EQ(read(R"({"attention":"hedgehog","features":12,"window":4})"), hedgehog);
  EXPECT_EQ(factor_rows(hedgehog), 6);
  const AttentionSpec own_keys{
      .kind = AttentionKind::kDark, .features = 12, .rank = 8, .own_key_factor = true};
  EXPECT_EQ(read(attention_spec_json(own_keys).dump()), own_keys);
  EXPECT_TRUE(has_key_factor(own_keys));
}

TEST(AttentionSpec, RefusesWhatMakesNoSense) {
  const auto expect = [](const std::string& text, const std::string& reason) {
    const std::string message = error_of(text);
    EXPECT_NE(message.find(reason), std::string::npos) << message;
    EXPECT_TRUE(message.starts_with("layers[0]")) << message;
  };
  expect("{}", "\"attention\" is missing");
  expect("3", "must be an object");
  expect(R"({"attention":"magic"})", "\"attention\" is magic; wanted one of exact, performer");
  expect(R"({"attention":3})", "\"attention\" must be a string");
  expect(R"({"attention":"exact","features":3})", "takes no options");
  expect(R"({"attention":"dark"})", "\"features\" is 0");
  expect(R"({"attention":"dark","features":-1})", "\"features\" is -1");
  expect(R"({"attention":"dark","features":1000000000})", "\"features\"");
  expect(R"({"attention":"dark","features":4,"rank":17})", "\"rank\" is 17; wanted 1 to 16");
  expect(R"({"attention":"dark","features":4,"rank":0})", "\"rank\" is 0");
  expect(R"({"attention":"performer","features":4,"rank":8})", "has no factor");
  expect(R"({"attention":"aderf","features":4,"rank":8})", "has no factor of lower rank");
  expect(R"({"attention":"aderf","features":4,"rope":"before"})", "fitted to rotated");
  expect(R"({"attention":"dark","features":4,"window":-1})", "\"window\" is -1");
  expect(R"({"attention":"dark","features":4,"sinks":-1})", "\"sinks\" is -1");
  expect(R"({"attention":"dark","features":4,"gate":true})", "\"gate\" needs a window");
  expect(R"({"attention":"dark","features":4,"placement":"head"})", "\"placement\" is head");
  expect(R"({"attention":"dark","features":4,"rope":"never"})", "\"rope\" is never");
  expect(R"({"attention":"dark","features":4,"rank":8,"rope":"before"})", "needs the full rank");
  expect(R"({"attention":"dark","features":4,"rope":"before","placement":"query-head"})",
         "needs one M");
  expect(R"({"attention":"dark","features":4,"near_kernel":"mine"})",
         "\"near_kernel\" is mine; wanted one of factor, model");
  expect(R"({"attention":"dark","features":4,"rope":"before","window":2,"near_kernel":"model"})",
         "before the rotation");
  expect(R"({"attention":"performer","features":4,"window":2,"near_kernel":"model","folded":true})",
         "folded into the projections");
  expect(R"({"attention":"exact","near_kernel":"model"})", "takes no options");
  expect(R"({"attention":"hedgehog","features":5})", "wanted an even number");
  expect(R"({"attention":"hedgehog","features":4,"centre":true})", "no centres");
  expect(R"({"attention":"hedgehog","features":4,"orthogonal":false})", "no draws");
  expect(R"({"attention":"hedgehog","features":4,"near_kernel":"factor"})", "model's own only");
  expect(R"({"attention":"hedgehog","features":4,"rank":8})", "has no factor of lower rank");
  expect(R"({"attention":"hedgehog","features":4,"rope":"before"})", "rotated queries");
  expect(R"({"attention":"lfk","features":4,"own_key_factor":true})", "could do without");
  expect(R"({"attention":"dark","features":4,"own_key_factor":true,"rope":"before"})",
         "rotated queries");
  expect(R"({"attention":"dark","features":4,"far_keys":"some"})",
         "\"far_keys\" is some; wanted one of beyond, all");
  expect(R"({"attention":"dark","features":4,"orthogonal":1})", "\"orthogonal\" must be true or");
  expect(R"({"attention":"dark","features":4,"windows":3})", "unknown key \"windows\"");
  expect(R"({"attention":"window"})", "\"window\" is 0");
  expect(R"({"attention":"window","window":4,"sinks":1})", "no option but");
}

}  // namespace
}  // namespace darkformer::attention_spec_test
