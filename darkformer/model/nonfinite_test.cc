// The tensor to blame is named, wherever it is.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/nonfinite.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "darkformer/model/small_decoder.h"

namespace darkformer::nonfinite_test {
namespace {

std::shared_ptr<Decoder> dark_decoder() {
  ModelConfig config = small_config(Family::kGemma2);
  config.attention[1] = small_dark_spec();
  return small_decoder(config);
}

TEST(Nonfinite, ASoundModelHasNone) {
  const auto model = dark_decoder();
  const Nonfinite found = find_nonfinite(*model);
  EXPECT_EQ(found.weight, "");
  EXPECT_EQ(found.gradient, "");
  EXPECT_NE(found.cause().find("all weights are finite"), std::string::npos);
}

TEST(Nonfinite, EveryTensorIsFound) {
  const auto model = dark_decoder();
  const at::NoGradGuard no_gradients;
  for (const auto& tensors : {model->named_parameters(), model->named_buffers()}) {
    for (const auto& named : tensors) {
      at::Tensor last = named.value().flatten()[-1];
      const at::Tensor before = last.clone();
      for (const double bad :
           {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()}) {
        last.fill_(bad);
        EXPECT_EQ(find_nonfinite(*model).weight, named.key());
        EXPECT_EQ(find_nonfinite(*model).cause(), named.key() + " holds NaN or infinity");
      }
      last.copy_(before);
    }
  }
  EXPECT_EQ(find_nonfinite(*model).weight, "");
}

// The backward pass goes from the last layer to the first and takes what is not finite along.
TEST(Nonfinite, TheFirstGradientOfTheBackwardPassIsFound) {
  const auto model = dark_decoder();
  const auto parameters = model->named_parameters();
  for (const auto& named : parameters) {
    at::Tensor weight = named.value();
    weight.mutable_grad() = at::zeros_like(weight);
  }
  EXPECT_EQ(find_nonfinite(*model).gradient, "");
  for (const char* name : {"model.layers.0.mlp.up_proj.weight", "model.layers.1.mlp.up_proj.weight",
                           "model.norm.weight"}) {
    parameters[name].grad().flatten()[-1].fill_(std::numeric_limits<float>::infinity());
    EXPECT_EQ(find_nonfinite(*model).gradient, name);
    EXPECT_EQ(find_nonfinite(*model).cause(),
              std::string("all weights are finite, but not the gradient of ") + name);
  }
}

}  // namespace
}  // namespace darkformer::nonfinite_test
