// Layers that are computed again give the bits of layers that are kept.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/recompute.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "darkformer/model/small_decoder.h"

namespace darkformer::recompute_test {
namespace {

struct Pass {
  at::Tensor hidden;
  std::vector<at::Tensor> gradients;
};

// Two passes whose gradients add up, as in a step with micro-batches.
Pass run(Decoder& model, bool recompute) {
  model.set_recompute(recompute);
  Pass result;
  for (const std::uint64_t seed : {3, 4}) {
    at::manual_seed(seed);
    const at::Tensor ids = at::randint(0, 61, {2, 11}, at::kLong),
                     targets = at::randint(0, 61, {2, 11}, at::kLong);
    result.hidden = model.forward(ids);
    model.loss(result.hidden, targets).mean().backward();
  }
  for (at::Tensor& parameter : model.parameters()) {
    result.gradients.push_back(parameter.grad());
    parameter.mutable_grad() = at::Tensor();
  }
  return result;
}

void expect_same_bits(Decoder& model) {
  const Pass kept = run(model, false), again = run(model, true);
  EXPECT_TRUE(kept.hidden.equal(again.hidden));
  const auto names = model.named_parameters().keys();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const at::Tensor &want = kept.gradients[i], &got = again.gradients[i];
    ASSERT_EQ(want.defined(), got.defined()) << names[i];
    EXPECT_TRUE(!want.defined() || want.equal(got)) << names[i];
  }
}

ModelConfig mixed_config(Family family) {
  return with_attention(small_config(family), 1, small_dark_spec());
}

TEST(Recompute, GivesTheSameBits) {
  for (const Family family : all_families()) {
    SCOPED_TRACE(parts_of(family).model_type);
    expect_same_bits(*small_decoder(mixed_config(family)));
  }
}

TEST(Recompute, GivesTheSameBitsWhereMostIsFrozen) {
  const auto model = small_decoder(mixed_config(Family::kGemma2));
  for (auto& entry : model->named_parameters()) {
    entry.value().set_requires_grad(entry.key().find("layers.1.self_attn") != std::string::npos);
  }
  expect_same_bits(*model);
}

TEST(Recompute, RunsOnceForwardAndOnceBackward) {
  int runs = 0;
  const at::Tensor w = at::full({3}, 2.0F).requires_grad_(), x = at::arange(3, at::kFloat);
  const auto square = [&](const std::vector<at::Tensor>& in) {
    ++runs;
    return std::vector<at::Tensor>{in[0] * w * w};
  };
  const at::Tensor y = recomputed(square, {x}, {w})[0];
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(y.requires_grad());
  y.sum().backward();
  EXPECT_EQ(runs, 2);
  EXPECT_TRUE(w.grad().equal(4 * x));
}

TEST(Recompute, WithoutGradientsItIsTheFunction) {
  const at::Tensor x = at::ones({2});
  const auto next = [](const std::vector<at::Tensor>& in) {
    return std::vector<at::Tensor>{in[0] + 1};
  };
  const at::Tensor y = recomputed(next, {x}, {})[0];
  EXPECT_FALSE(y.requires_grad());
  EXPECT_TRUE(y.equal(x + 1));
}

TEST(Recompute, TakesAndGivesSeveral) {
  const at::Tensor x = at::arange(3, at::kFloat).requires_grad_(),
                   z = at::full({3}, 5.0F).requires_grad_();
  const auto both = [](const std::vector<at::Tensor>& in) {
    return std::vector<at::Tensor>{in[0] * in[2], in[0] + in[2]};
  };
  const auto y = recomputed(both, {x, at::Tensor(), z}, {});
  (2 * y[0]).sum().backward();  // the second is not used
  EXPECT_TRUE(x.grad().equal(2 * z));
  EXPECT_TRUE(z.grad().equal(2 * x));
}

}  // namespace
}  // namespace darkformer::recompute_test
