// Parts of a model: the window sees no further, the model is itself again afterwards.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/attribution.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "darkformer/model/small_decoder.h"

namespace darkformer::attribution_test {
namespace {

constexpr std::int64_t kLength = 40;

std::shared_ptr<Decoder> windowed_decoder(bool gate) {
  ModelConfig config = small_config(Family::kGemma1);
  for (AttentionSpec& spec : config.attention) {
    spec = small_dark_spec();
    spec.sinks = 0;
    spec.gate = gate;
  }
  return small_decoder(config);
}

at::Tensor last_logits(Decoder& model, const at::Tensor& ids) {
  const at::NoGradGuard no_gradients;
  return model.logits(model.forward(ids)).select(1, kLength - 1);
}

// How far the last logits move when token `place` changes.
double effect(Decoder& model, std::int64_t place) {
  const at::Tensor ids = at::arange(kLength, at::kLong).unsqueeze(0);
  const at::Tensor other = ids.clone();
  other[0][place] = 55;
  return (last_logits(model, ids) - last_logits(model, other)).abs().max().item<double>();
}

TEST(Attribution, TheWindowAloneSeesNoFurther) {
  for (const bool gate : {false, true}) {
    const auto model = windowed_decoder(gate);
    const std::int64_t reach = 3 * (3 - 1);  // layers times (window - 1)
    const std::int64_t outside = kLength - 1 - reach - 1;
    EXPECT_GT(effect(*model, outside), 0.0);
    {
      const PartOverlay overlay(*model, AttentionPart::kWindow);
      EXPECT_EQ(effect(*model, outside), 0.0);
      EXPECT_GT(effect(*model, outside + 1), 0.0);
    }
    {
      const PartOverlay overlay(*model, AttentionPart::kLinear);
      EXPECT_GT(effect(*model, outside), 0.0);
    }
  }
}

TEST(Attribution, TheModelIsItselfAgain) {
  const auto model = windowed_decoder(true);
  const at::Tensor ids = at::arange(kLength, at::kLong).unsqueeze(0);
  const at::Tensor want = last_logits(*model, ids);
  for (const AttentionPart part : attention_parts(model->config())) {
    const PartOverlay overlay(*model, part);
    EXPECT_EQ(last_logits(*model, ids).equal(want), part == AttentionPart::kAll);
  }
  EXPECT_TRUE(last_logits(*model, ids).equal(want));
}

TEST(Attribution, PartsAreThoseTheModelHas) {
  ModelConfig config = small_config(Family::kGemma1);
  EXPECT_TRUE(attention_parts(config).empty());
  config.attention[0].kind = AttentionKind::kConstant;
  EXPECT_TRUE(attention_parts(config).empty());
  config.attention[1] = small_dark_spec();
  EXPECT_EQ(attention_parts(config).size(), 4U);
  config.attention[1].window = config.attention[1].sinks = 0;
  EXPECT_EQ(attention_parts(config),
            (std::vector{AttentionPart::kAll, AttentionPart::kConstantFar}));
}

TEST(Attribution, JsonNamesTheComponents) {
  const OrderedJson list = attribution_json({{"full", {2, 1.0, 1}, {}}});
  EXPECT_EQ(list[0]["component"], "full");
  EXPECT_EQ(list[0]["accuracy"], 0.5);
  EXPECT_TRUE(list[0]["probe"].empty());
}

}  // namespace
}  // namespace darkformer::attribution_test
