// Cross-entropy: loss, counts and gradients against the plain formula; wrong arguments.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/ops/cross_entropy.h"

#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>

#include "darkformer/ops/op_testing.h"

namespace darkformer::ops::cross_entropy_test {
namespace {

TEST(CrossEntropyOp, GradientsEqualThoseOfTheFormula) {
  for (const double softcap : {0.0, 5.0}) {
    for (const std::int64_t V : {2, 37, 600}) {
      SCOPED_TRACE(::testing::Message() << "V " << V << " soft-cap " << softcap);
      const at::Tensor targets = at::randint(-1, V, {2, 9}, at::kLong);  // some left out
      check_gradients(
          {{"hidden", at::randn({2, 9, 12})}, {"weight", at::randn({V, 12})}},
          [&](const Tensors& in) {
            return ops::cross_entropy(in[0], in[1], targets, softcap).loss;
          },
          64);
    }
  }
}

TEST(CrossEntropyOp, CountsAsTheFormulaDoes) {
  const at::Tensor hidden = at::randn({40, 4}), weight = at::randn({5, 4});
  const at::Tensor targets = at::randint(-1, 5, {40}, at::kInt);
  const CrossEntropy got = ops::cross_entropy(hidden, weight, targets);
  const CrossEntropy want = ops::cross_entropy(hidden.to(at::kDouble), weight, targets);
  EXPECT_TRUE(got.correct.equal(want.correct));
  EXPECT_GT(got.correct_count(), 0);
  EXPECT_EQ(got.correct_count(), want.correct_count());
  EXPECT_EQ(got.counted, (targets >= 0).sum().item<std::int64_t>());
  expect_close("mean", got.mean(), want.mean(), 40);
  EXPECT_EQ(got.loss.index({targets < 0}).abs().sum().item<float>(), 0.0F);
}

TEST(CrossEntropyOp, AStoredHeadIsFrozenAndHiddenIsNot) {
  const at::Tensor weight = at::randn({37, 12}).to(at::kBFloat16);
  const at::Tensor targets = at::randint(0, 37, {9}, at::kLong);
  check_gradients(
      {{"hidden", at::randn({9, 12})}},
      [&](const Tensors& in) { return ops::cross_entropy(in[0], weight, targets, 30.0).loss; }, 64);
}

TEST(CrossEntropyOp, GivesOnlyTheGradientsAskedFor) {
  const at::Tensor hidden = at::randn({3, 4}), weight = at::randn({5, 4}).requires_grad_();
  ops::cross_entropy(hidden, weight, at::tensor({0, 1, 4}, at::kLong)).mean().backward();
  EXPECT_TRUE(weight.grad().defined());
  EXPECT_FALSE(hidden.grad().defined());
}

TEST(CrossEntropyOp, RefusesWrongArguments) {
  const at::Tensor hidden = at::randn({2, 4}), weight = at::randn({5, 4});
  const at::Tensor targets = at::tensor({0, 4}, at::kLong);
  expect_error(
      [&] {
        ops::cross_entropy(hidden, weight, at::tensor({0, 5}, at::kLong));
      },
      "cross_entropy: target 5 at place 1 is outside the vocabulary of 5");
  expect_error([&] { ops::cross_entropy(hidden, weight, at::tensor({0}, at::kLong)); },
               "cross_entropy: hidden is float32 [2, 4], weight float32 [5, 4] and targets int64");
  expect_error([&] { ops::cross_entropy(hidden, weight, targets, -1); },
               "cross_entropy: the soft-cap");
  expect_error(
      [&] {
        ops::cross_entropy(hidden, at::randn({5, 3}), targets);
      },
      "cross_entropy: hidden");
}

}  // namespace
}  // namespace darkformer::ops::cross_entropy_test
