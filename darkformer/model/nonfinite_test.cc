// The tensor to blame is named, wherever it is.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/nonfinite.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "darkformer/model/small_gemma.h"

namespace darkformer {
namespace {

std::shared_ptr<Gemma> dark_gemma() {
  GemmaConfig config = small_config(GemmaFamily::kGemma2);
  config.attention[1] = small_dark_spec();
  return small_gemma(config);
}

TEST(Nonfinite, ASoundModelHasNone) {
  const auto model = dark_gemma();
  EXPECT_EQ(nonfinite_weight(*model), "");
  EXPECT_EQ(nonfinite_gradient(*model), "");
  EXPECT_NE(nonfinite_cause(*model).find("all weights are finite"), std::string::npos);
}

TEST(Nonfinite, EveryTensorIsFound) {
  const auto model = dark_gemma();
  const at::NoGradGuard no_gradients;
  for (const auto& tensors : {model->named_parameters(), model->named_buffers()}) {
    for (const auto& named : tensors) {
      at::Tensor last = named.value().flatten()[-1];
      const at::Tensor before = last.clone();
      for (const double bad :
           {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()}) {
        last.fill_(bad);
        EXPECT_EQ(nonfinite_weight(*model), named.key());
        EXPECT_EQ(nonfinite_cause(*model), named.key() + " holds NaN or infinity");
      }
      last.copy_(before);
    }
  }
  EXPECT_EQ(nonfinite_weight(*model), "");
}

TEST(Nonfinite, AGradientIsFound) {
  const auto model = dark_gemma();
  at::Tensor weight = model->named_parameters()["model.norm.weight"];
  weight.mutable_grad() = at::zeros_like(weight);
  EXPECT_EQ(nonfinite_gradient(*model), "");
  weight.mutable_grad().fill_(std::numeric_limits<float>::infinity());
  EXPECT_EQ(nonfinite_gradient(*model), "model.norm.weight");
}

}  // namespace
}  // namespace darkformer
