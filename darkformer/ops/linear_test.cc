// Linear maps: output and gradients against double products; frozen weights; wrong arguments.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/ops/linear.h"

#include "darkformer/ops/op_testing.h"

namespace darkformer::ops::linear_test {
namespace {

at::Tensor map(const Tensors& in) {
  return ops::linear(in[0], in[1]);
}

TEST(LinearOp, GradientsEqualThoseOfTheFormula) {
  for (const std::int64_t rows : {1, 8, 9, 31}) {
    for (const std::int64_t out : {1, 15, 17}) {
      SCOPED_TRACE(::testing::Message() << rows << " rows, " << out << " out");
      check_gradients({{"x", at::randn({2, rows, 33})}, {"weight", at::randn({out, 33})}}, map,
                      33 + out + 2 * rows);
    }
  }
}

TEST(LinearOp, TakesAnyStrides) {
  check_gradients({{"x", at::randn({9, 20}).transpose(0, 1)}, {"weight", at::randn({9, 7}).t()}},
                  map, 40);
}

TEST(LinearOp, AStoredWeightIsFrozenAndItsInputIsNot) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const at::Tensor weight = at::randn({40, 20}).to(type);
    for (const std::int64_t rows : {1, 20}) {
      check_gradients(
          {{"x", at::randn({rows, 20})}},
          [&](const Tensors& in) { return ops::linear(in[0], weight); }, 60);
    }
    EXPECT_FALSE(weight.grad().defined());
  }
}

TEST(LinearOp, GivesOnlyTheGradientsAskedFor) {
  const at::Tensor x = at::randn({3, 4}), weight = at::randn({5, 4}).requires_grad_();
  ops::linear(x, weight).sum().backward();
  EXPECT_TRUE(weight.grad().defined());
  EXPECT_FALSE(x.grad().defined());
}

TEST(LinearOp, TakesNoRows) {
  const at::Tensor x = at::randn({0, 4}).requires_grad_();
  const at::Tensor weight = at::randn({5, 4}).requires_grad_();
  const at::Tensor y = ops::linear(x, weight);
  EXPECT_EQ(y.sizes(), at::IntArrayRef({0, 5}));
  y.sum().backward();
  EXPECT_EQ(weight.grad().abs().sum().item<float>(), 0.0F);
}

TEST(LinearOp, RefusesWrongArguments) {
  const at::Tensor x = at::randn({3, 4});
  expect_error(
      [&] {
        ops::linear(x, at::randn({5, 3}));
      },
      "linear: x is float32 [3, 4] but weight is float32 [5, 3]");
  expect_error([&] { ops::linear(x, at::randn({4})); }, "linear: weight is float32 [4]");
  expect_error([&] { ops::linear(x, at::randn({5, 4}).to(at::kInt)); }, "linear: weight is int32");
  expect_error(
      [&] {
        ops::linear(x, at::randn({5, 4}).to(at::kDouble));
      },
      "linear: weight is float64");
  expect_error(
      [&] {
        ops::linear(x.to(at::kBFloat16), at::randn({5, 4}));
      },
      "linear: x is bfloat16");
  expect_error(
      [&] {
        ops::linear(x, at::randn({5, 4}).to(at::kBFloat16).requires_grad_());
      },
      "linear: a bfloat16 [5, 4] weight asks for a gradient");
}

}  // namespace
}  // namespace darkformer::ops::linear_test
