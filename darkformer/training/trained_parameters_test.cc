// Which parameters are trained, decayed and scaled; norms and clipping.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/training/trained_parameters.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "darkformer/base/error.h"
#include "darkformer/model/small_decoder.h"

namespace darkformer::trained_parameters_test {
namespace {

std::shared_ptr<Decoder> dark_decoder() {
  ModelConfig config = small_config(Family::kGemma3, 1);
  config.attention = {small_dark_spec()};
  config.attention[0].gate = true;
  return small_decoder(config);
}

std::set<std::string> chosen(const Decoder& model, bool (*choose)(const std::string&)) {
  std::set<std::string> names;
  for (const auto& entry : model.named_parameters()) {
    const std::string prefix = "model.layers.0.";
    if (choose(entry.key())) {
      names.insert(entry.key().starts_with(prefix) ? entry.key().substr(prefix.size())
                                                   : entry.key());
    }
  }
  return names;
}

TEST(TrainedParameters, AttentionIsProjectionsAndTheMixersOwn) {
  const auto names = chosen(*dark_decoder(), [](const std::string& name) {
    return is_trained(TrainScope::kAttention, name);
  });
  EXPECT_EQ(names, (std::set<std::string>{"self_attn.q_proj.weight", "self_attn.k_proj.weight",
                                          "self_attn.v_proj.weight", "self_attn.dark.factor",
                                          "self_attn.dark.gate_scale", "self_attn.dark.gate_bias",
                                          "self_attn.dark.gate_weight"}));
}

TEST(TrainedParameters, MatricesDecayAndNothingElse) {
  EXPECT_EQ(chosen(*dark_decoder(), decays),
            (std::set<std::string>{"model.embed_tokens.weight", "self_attn.q_proj.weight",
                                   "self_attn.k_proj.weight", "self_attn.v_proj.weight",
                                   "self_attn.o_proj.weight", "mlp.gate_proj.weight",
                                   "mlp.up_proj.weight", "mlp.down_proj.weight"}));
}

TEST(TrainedParameters, BothMapsOfLearnedFeaturesAreTheFactor) {
  const auto model = dark_decoder();
  model->set_attention(0, {.kind = AttentionKind::kHedgehog,
                           .features = 6,
                           .rank = model->config().head_dim,
                           .near = NearKernel::kModel});
  EXPECT_EQ(chosen(*model, is_factor),
            (std::set<std::string>{"self_attn.dark.factor", "self_attn.dark.key_factor"}));
}

TEST(TrainedParameters, OnlyTheFactorHasItsOwnRate) {
  for (const TrainedParameter& parameter : trained_parameters(*dark_decoder(), 7)) {
    EXPECT_EQ(parameter.rate_scale, parameter.name.ends_with("dark.factor") ? 7 : 1)
        << parameter.name;
  }
}

TEST(TrainedParameters, AModelWithoutAnyIsAnError) {
  const auto model = dark_decoder();
  for (auto& entry : model->named_parameters()) {
    entry.value().set_requires_grad(false);
  }
  EXPECT_THROW(trained_parameters(*model), Error);
}

TEST(Gradients, NormOverAllAndClipping) {
  const auto model = dark_decoder();
  const auto parameters = trained_parameters(*model);
  clear_gradients(parameters);
  EXPECT_EQ(gradient_norm(parameters), 0);
  parameters[0].value.mutable_grad() = at::full_like(parameters[0].value.detach(), 3);
  parameters[2].value.mutable_grad() = at::full_like(parameters[2].value.detach(), -4);
  const double want = std::sqrt(9.0 * static_cast<double>(parameters[0].value.numel()) +
                                16.0 * static_cast<double>(parameters[2].value.numel()));
  EXPECT_DOUBLE_EQ(gradient_norm(parameters), want);
  EXPECT_DOUBLE_EQ(clip_scale(want, 1), 1 / want);
  EXPECT_EQ(clip_scale(want, 2 * want), 1);
  EXPECT_EQ(clip_scale(want, 0), 1);
}

}  // namespace
}  // namespace darkformer::trained_parameters_test
