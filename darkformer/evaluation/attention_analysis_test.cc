// Analyses of small models: what they hold, kept and taken back, and plans made of them.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/attention_analysis.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "darkformer/base/error.h"
#include "darkformer/base/scratch_folder.h"
#include "darkformer/evaluation/collect_moments.h"
#include "darkformer/evaluation/conversion_plan.h"
#include "darkformer/model/small_decoder.h"
#include "darkformer/text/test_shards.h"

namespace darkformer::attention_analysis_test {
namespace {

constexpr std::int64_t kContext = 40;

class Analyses : public ::testing::Test {
 protected:
  EvaluationWindows windows(int documents) {
    const auto file = scratch_.path() / ("text" + std::to_string(documents));
    return {{make_shard(file, make_documents(documents, 90, 58), byte_encoder(58))}, kContext};
  }
  static std::string error_of(const std::function<void()>& act) {
    try {
      act();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  ScratchFolder scratch_;
};

TEST_F(Analyses, OfEveryFamilyHoldEveryLayerHeadAndEstimator) {
  for (const Family family : all_families()) {
    const auto model = small_decoder(small_config(family));
    const EvaluationWindows text = windows(14);
    const AnalysisOptions options{.features = {4, 16}};
    std::int64_t last = 0;
    const ModelAnalysis analysis =
        analyze_model(*model, text, options, [&](std::int64_t read) { last = read; });
    EXPECT_EQ(last, analysis_tokens(text, options));
    EXPECT_EQ(analysis.fitted_tokens + analysis.held_out_tokens, last);
    ASSERT_EQ(analysis.layers.size(), 3U);
    for (const LayerAnalysis& layer : analysis.layers) {
      EXPECT_EQ(layer.queries.size(), 4U);
      EXPECT_EQ(layer.keys.size(), 2U);
      EXPECT_EQ(layer.reach.windows.size(), 4U);
      EXPECT_FALSE(layer.advice.reason.empty());
      if (layer.sliding_window > 0) {
        EXPECT_EQ(layer.advice.spec.kind, AttentionKind::kExact);
        continue;
      }
      EXPECT_EQ(layer.estimators.size(), 13U);
      for (const EstimatorAnalysis& estimator : layer.estimators) {
        ASSERT_EQ(estimator.heads.size(), 4U);
        for (const HeadEstimate& head : estimator.heads) {
          EXPECT_EQ(head.measured.size(), estimator.measured ? 2U : 0U);
          EXPECT_FALSE(std::isnan(head.log_moment)) << estimator.name;
          for (const double value : head.measured) {
            EXPECT_TRUE(std::isfinite(value) && value >= 0.0) << estimator.name;
          }
          for (const double value : head.predicted) {
            EXPECT_TRUE(std::isfinite(value) && value >= 0.0) << estimator.name;
          }
        }
      }
    }
    // The observers are gone.
    EXPECT_EQ(model->block(0)->attention()->mixer()->state_bytes(0),
              mixer_state_bytes(mixer_shape(model->config(), 0), {}, 0));
  }
}

TEST_F(Analyses, MomentsAreThoseOfTheWindowsNotHeldOut) {
  const auto model = small_decoder(small_config(Family::kGemma1));
  const EvaluationWindows text = windows(12);
  ASSERT_GE(text.whole(), 8);
  const ModelAnalysis analysis =
      analyze_model(*model, text, {.tokens = 8 * kContext, .features = {8}});
  EXPECT_EQ(analysis.held_out_tokens, kContext);
  EXPECT_EQ(analysis.fitted_tokens, 7 * kContext);
  const auto all = collect_moments(*model, text, text.tokens());
  EXPECT_EQ(analysis.moments[1]->tokens(), 7 * kContext);
  const at::Tensor apart = analysis.moments[1]->query_mean(2) - all[1]->query_mean(2);
  EXPECT_LT(apart.abs().max().item<double>(),
            0.5 * all[1]->query_mean(2).abs().max().item<double>() + 0.5);
}

TEST_F(Analyses, MoreFeaturesMeasureSmallerErrors) {
  const auto model = small_decoder(small_config(Family::kGemma1));
  const ModelAnalysis analysis = analyze_model(*model, windows(14), {.features = {4, 512}});
  for (const LayerAnalysis& layer : analysis.layers) {
    const EstimatorAnalysis& performer = layer.estimators.front();
    EXPECT_LT(performer.errors[1], performer.errors[0]);
    for (const HeadEstimate& head : performer.heads) {
      EXPECT_LE(head.predicted[1], head.predicted[0]);
    }
  }
}

TEST_F(Analyses, AreRefusedWhereTheyMeanNothing) {
  const auto model = small_decoder(small_config(Family::kGemma1));
  EXPECT_NE(error_of([&] { analyze_model(*model, windows(1), {}); }).find("--context 40"),
            std::string::npos);
  model->set_attention(1, small_dark_spec());
  EXPECT_NE(
      error_of([&] { analyze_model(*model, windows(14), {}); }).find("layer 1 has attention dark"),
      std::string::npos);
}

TEST_F(Analyses, AreKeptAndTakenBack) {
  const auto model = small_decoder(small_config(Family::kGemma2));
  const ModelAnalysis analysis = analyze_model(*model, windows(14), {.features = {4, 16}});
  write_analysis(scratch_.path(), analysis, "small");
  const AnalysisAdvice advice = read_analysis(scratch_.path() / "analysis.json", *model);
  ASSERT_EQ(advice.layers.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(advice.layers[i].advice.spec, analysis.layers[i].advice.spec);
    EXPECT_EQ(advice.layers[i].advice.reason, analysis.layers[i].advice.reason);
    ASSERT_EQ(advice.layers[i].options.size(), analysis.layers[i].options.size());
    EXPECT_TRUE(advice.moments[i]->key_covariance(2).equal(analysis.moments[i]->key_covariance(2)));
    EXPECT_EQ(advice.moments[i]->tokens(), analysis.fitted_tokens);
    ASSERT_EQ(advice.layers[i].reach.windows.size(), analysis.layers[i].reach.windows.size());
  }
  const auto other = small_decoder(small_config(Family::kGemma2), 8);
  EXPECT_NE(error_of([&] { read_analysis(scratch_.path(), *other); }).find("another model"),
            std::string::npos);
  // Cut short, and gone.
  const auto moments = scratch_.path() / "moments.safetensors";
  std::filesystem::resize_file(moments, std::filesystem::file_size(moments) / 2);
  EXPECT_NE(error_of([&] { read_analysis(scratch_.path(), *model); }).find("moments.safetensors"),
            std::string::npos);
  std::ofstream(scratch_.path() / "analysis.json") << "{\"format\": \"other\"}";
  EXPECT_NE(error_of([&] { read_analysis(scratch_.path(), *model); }).find("not an analysis"),
            std::string::npos);
}

TEST(Advice, KnowsTheMassOfAWindowBetweenThoseThatWereMeasured) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  AnalysisAdvice advice;
  advice.windows = {16, 64, 256}, advice.sinks = {1, 4};
  advice.layers.resize(1);
  advice.layers[0].reach = {{{0.5, 0.7, kNone}, {0.2, 0.9, kNone}}, {{0.1, 0.2}, {0.05, 0.3}}};
  const auto masses = [&](std::int64_t window, std::int64_t sinks) {
    AttentionSpec spec;
    spec.window = window, spec.sinks = sinks;
    return advice.near_mass(0, spec);
  };
  const auto expect = [&](std::int64_t window, std::int64_t sinks, double first, double second) {
    const std::vector<double> found = masses(window, sinks);
    ASSERT_EQ(found.size(), 2U);
    EXPECT_NEAR(found[0], first, 1e-12);
    EXPECT_NEAR(found[1], second, 1e-12);
  };
  expect(16, 0, 0.5, 0.2);
  expect(32, 0, 0.6, 0.55);
  expect(8, 1, 0.6, 0.25);
  expect(512, 4, 0.9, 1.0);
  advice.layers[0].reach.windows[1] = {kNone, kNone, kNone};
  EXPECT_TRUE(masses(16, 0).empty());
}

AttentionSpec dark(std::int64_t features, std::int64_t window) {
  AttentionSpec spec;
  spec.kind = AttentionKind::kDark;
  spec.features = features;
  spec.rank = 8;
  spec.centre = true;
  spec.window = window;
  spec.gate = window > 0;
  return spec;
}

TEST(Advice, TakesTheSmallestThatIsGoodOrSaysWhyNot) {
  LayerAnalysis layer;
  layer.options = {{dark(64, 0), 0.09}, {dark(8, 16), 0.08}, {dark(8, 0), 0.3}};
  const LayerAdvice good = advise(layer, 0.1);
  EXPECT_EQ(good.spec, dark(8, 16));
  EXPECT_TRUE(good.zero_shot);
  const LayerAdvice trained = advise(layer, 0.01);
  EXPECT_FALSE(trained.zero_shot);
  EXPECT_EQ(trained.spec, dark(8, 16));
  EXPECT_NE(trained.reason.find("finetuned"), std::string::npos) << trained.reason;
  layer.options = {{dark(64, 0), 1.2}, {dark(8, 16), 0.8}};
  layer.constant_error = 0.9;
  const LayerAdvice hopeless = advise(layer, 0.1);
  EXPECT_EQ(hopeless.spec.kind, AttentionKind::kExact);
  EXPECT_NE(hopeless.reason.find("80 %"), std::string::npos) << hopeless.reason;
  layer.sliding_window = 512;
  EXPECT_NE(advise(layer, 0.1).reason.find("sliding window of 512"), std::string::npos);
}

// Errors of features alone and beside a window of 32.
AnalysisAdvice::Layer advised_layer(double plain, double beside_window) {
  AnalysisAdvice::Layer layer;
  layer.advice.spec = dark(16, 0), layer.advice.error = plain;
  layer.options.push_back({dark(16, 0), plain});
  layer.options.push_back({dark(16, 32), beside_window});
  return layer;
}

TEST(Plan, SpendsABudgetWhereItGainsMost) {
  ModelConfig config = small_config(Family::kGemma1, 2);
  AnalysisAdvice advice;
  advice.file = "analysis.json";
  // Layer 0 gains much from a window, layer 1 nothing.
  advice.layers = {advised_layer(0.9, 0.1), advised_layer(0.2, 0.19)};
  const std::vector<bool> free = {false, false};
  const auto bytes = [&](const AttentionSpec& spec) {
    return mixer_state_bytes(mixer_shape(config, 0), spec, config.max_positions);
  };
  const std::int64_t small = bytes(dark(16, 0)), large = bytes(dark(16, 32)), exact = bytes({});
  ASSERT_LT(large, exact);
  using Specs = std::vector<AttentionSpec>;
  EXPECT_EQ(plan_layers(advice, config, free, {}), (Specs{dark(16, 0), dark(16, 0)}));
  EXPECT_EQ(plan_layers(advice, config, free, 2 * small), (Specs{dark(16, 0), dark(16, 0)}));
  EXPECT_EQ(plan_layers(advice, config, free, small + large), (Specs{dark(16, 32), dark(16, 0)}));
  EXPECT_EQ(plan_layers(advice, config, free, 2 * exact), (Specs{{}, {}}));
  EXPECT_EQ(plan_layers(advice, config, {true, false}, exact + small), (Specs{{}, dark(16, 0)}));
  try {
    plan_layers(advice, config, free, 2 * small - 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(std::to_string(2 * small)), std::string::npos);
  }
  // A step that is no bargain is taken where the better one does not fit.
  AnalysisAdvice steps = advice;
  steps.layers[0].options.push_back({dark(18, 0), 0.85});
  const std::int64_t middle = bytes(dark(18, 0));
  ASSERT_LT(middle, large);
  EXPECT_EQ(plan_layers(steps, config, free, small + large - 1), (Specs{dark(18, 0), dark(16, 0)}));
  EXPECT_EQ(plan_layers(steps, config, free, small + large), (Specs{dark(16, 32), dark(16, 0)}));
  // Never above the budget, and never worse for more of it.
  double before = 10.0;
  for (std::int64_t budget = 2 * small; budget <= 2 * exact; budget += 500) {
    const Specs specs = plan_layers(advice, config, free, budget);
    double error2 = 0.0;
    std::int64_t spent = 0;
    for (std::size_t i = 0; i < 2; ++i) {
      spent += bytes(specs[i]);
      for (const LayerOption& option : advice.layers[i].options) {
        error2 += option.spec == specs[i] ? option.error * option.error : 0.0;
      }
    }
    EXPECT_LE(spent, budget);
    EXPECT_LE(error2, before + 1e-12);
    before = error2;
  }
}

}  // namespace
}  // namespace darkformer::attention_analysis_test
