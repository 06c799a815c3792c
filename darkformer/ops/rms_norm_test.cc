// RMSNorm: output and gradients against the plain formula; wrong arguments.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/ops/rms_norm.h"

#include "darkformer/ops/op_testing.h"

namespace darkformer::ops::rms_norm_test {
namespace {

at::Tensor norm(const Tensors& in) {
  return ops::rms_norm(in[0], in[1], 1e-6);
}
// Of the families whose weights are the gain itself.
at::Tensor plain_norm(const Tensors& in) {
  return ops::rms_norm(in[0], in[1], 1e-6, 0.0);
}

TEST(RmsNormOp, GradientsEqualThoseOfTheFormula) {
  for (const std::int64_t E : {3, 7, 16, 33}) {
    for (const std::int64_t rows : {1, 5}) {
      SCOPED_TRACE(::testing::Message() << rows << " rows of " << E);
      for (const auto& some_norm : {norm, plain_norm}) {
        check_gradients({{"x", at::randn({2, rows, E})}, {"weight", at::randn({E})}}, some_norm,
                        E + 2 * rows + 8);
      }
    }
  }
}

TEST(RmsNormOp, TakesAnyStrides) {
  const at::Tensor x = at::randn({3, 8, 5}).transpose(1, 2);
  check_gradients({{"x", x}, {"weight", at::randn({16}).slice(0, 0, 16, 2)}}, norm, 32);
}

TEST(RmsNormOp, TakesAStoredWeight) {
  const at::Tensor x = at::randn({4, 16}), weight = at::randn({16}).to(at::kBFloat16);
  expect_close("y", ops::rms_norm(x, weight, 1e-6),
               ops::rms_norm(x.to(at::kDouble), weight.to(at::kDouble), 1e-6), 24);
}

TEST(RmsNormOp, GivesOnlyTheGradientsAskedFor) {
  const at::Tensor x = at::randn({4, 16}), weight = at::randn({16}).requires_grad_();
  ops::rms_norm(x, weight, 1e-6).sum().backward();
  EXPECT_TRUE(weight.grad().defined());
  EXPECT_FALSE(x.grad().defined());
}

TEST(RmsNormOp, RefusesWrongArguments) {
  const at::Tensor x = at::randn({4, 16});
  expect_error([&] { ops::rms_norm(x, at::randn({15}), 1e-6); }, "rms_norm: x is float32 [4, 16]");
  expect_error([&] { ops::rms_norm(x.to(at::kHalf), at::randn({16}), 1e-6); },
               "rms_norm: x is float16");
  expect_error([&] { ops::rms_norm(x, at::Tensor(), 1e-6); }, "rms_norm: x is");
  expect_error([&] { ops::rms_norm(at::Tensor(), x, 1e-6); }, "rms_norm: x is undefined");
}

}  // namespace
}  // namespace darkformer::ops::rms_norm_test
