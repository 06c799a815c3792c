// Ten steps of AdamW and SGD on the golden models against an independent implementation.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "darkformer/base/philox.h"
#include "darkformer/base/tolerance.h"
#include "darkformer/checkpoint/golden_model.h"
#include "darkformer/checkpoint/model_folder.h"
#include "darkformer/model/decoder.h"
#include "darkformer/training/optimizer.h"

namespace darkformer::golden_training_test {
namespace {

// Rounding-sized noise on the weights a curve starts from: what two sound implementations differ
// by. It grows along a curve, for SGD at this rate more than a thousandfold while the loss falls
// down its first slope; how far is measured here, by runs from weights with other such noise. A
// wrong update rule is off by more than 1e-2 at step 1, where it has not grown yet.
constexpr double kNoise = 4 * kEpsFloat;
constexpr int kNoisyRuns = 4;
constexpr double kSpreads = 10;

class GoldenTraining : public ::testing::TestWithParam<const char*> {
 protected:
  // The losses before each of the steps, from weights with noise number `noise` (0: none).
  std::vector<double> curve(const OptimizerOptions& options,
                            double rate,
                            std::size_t steps,
                            int noise) {
    const auto model =
        load_model(golden_.folder, {.trains = [](const std::string&) { return true; }});
    std::vector<TrainedParameter> parameters = trained_parameters(*model);
    for (TrainedParameter& parameter : parameters) {
      parameter.decays = true;  // the curves were made with decay of norms, too
    }
    if (noise > 0) {
      add_noise(parameters, noise);
    }
    Optimizer optimizer(parameters, options);
    const at::Tensor ids = golden_.tensor("input_ids");
    const std::int64_t T = ids.size(1) - 1;
    std::vector<double> losses;
    for (std::size_t step = 0; step < steps; ++step) {
      clear_gradients(parameters);
      const at::Tensor loss =
          model->loss(model->forward(ids.narrow(1, 0, T)), ids.narrow(1, 1, T)).mean();
      loss.backward();
      optimizer.step(rate, 1.0);
      losses.push_back(loss.item<double>());
    }
    return losses;
  }

  static void add_noise(const std::vector<TrainedParameter>& parameters, int noise) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      at::Tensor value = parameters[i].value.detach();
      at::Tensor factor = at::empty_like(value);
      Philox(static_cast<std::uint64_t>(noise), static_cast<std::uint32_t>(i))
          .fill_normal(
              std::span(factor.data_ptr<float>(), static_cast<std::size_t>(factor.numel())));
      value.mul_(factor * kNoise + 1);
    }
  }

  void expect_curve(const char* name, const OptimizerOptions& options, double rate) {
    const auto want = golden_.facts[name].get<std::vector<double>>();
    const std::vector<double> got = curve(options, rate, want.size(), 0);
    std::vector<double> spread(want.size());
    for (int noise = 1; noise <= kNoisyRuns; ++noise) {
      const std::vector<double> noisy = curve(options, rate, want.size(), noise);
      for (std::size_t i = 0; i < want.size(); ++i) {
        spread[i] = std::max(spread[i], std::abs(noisy[i] - got[i]));
      }
    }
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(got[i], want[i], kGoldenLoss * want[i] + kSpreads * spread[i])
          << "step " << i << ", spread " << spread[i];
    }
    EXPECT_LT(kSpreads * spread[2], 1e-2 * want[2]) << "too noisy to show anything";
  }

  GoldenModel golden_{GetParam()};
};

TEST_P(GoldenTraining, AdamwCurve) {
  expect_curve("adamw_lr1e-3_wd0.01_loss_trajectory", {.weight_decay = 0.01}, 1e-3);
}

TEST_P(GoldenTraining, SgdCurve) {
  expect_curve("sgd_lr0.05_loss_trajectory", {.kind = OptimizerKind::kSgd, .weight_decay = 0},
               0.05);
}

INSTANTIATE_TEST_SUITE_P(Families,
                         GoldenTraining,
                         ::testing::Values("gemma1", "gemma2", "gemma3"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace darkformer::golden_training_test
