// GeGLU: output and gradients against the plain formula; wrong arguments.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/ops/geglu.h"

#include "darkformer/ops/op_testing.h"

namespace darkformer::ops::geglu_test {
namespace {

at::Tensor unit(const Tensors& in) {
  return ops::geglu(in[0], in[1]);
}

TEST(GegluOp, GradientsEqualThoseOfTheFormula) {
  for (const std::int64_t count : {1, 7, 16, 33, 1000}) {
    check_gradients({{"gate", 2 * at::randn({count})}, {"up", at::randn({count})}}, unit, 8);
  }
}

TEST(GegluOp, TakesAnyStrides) {
  check_gradients(
      {{"gate", at::randn({5, 6}).transpose(0, 1)}, {"up", at::randn({1, 5}).expand({6, 5})}}, unit,
      8);
}

TEST(GegluOp, RefusesWrongArguments) {
  const at::Tensor gate = at::randn({4, 3});
  expect_error(
      [&] {
        ops::geglu(gate, at::randn({3, 4}));
      },
      "geglu: gate is float32 [4, 3] but up is");
  expect_error([&] { ops::geglu(gate, gate.to(at::kDouble)); },
               "geglu: gate is float32 [4, 3] but up");
  expect_error([&] { ops::geglu(gate, gate.to(at::kLong)); }, "geglu: up is int64");
}

TEST(GegluOp, RefusesSecondDerivatives) {
  const at::Tensor gate = at::randn({4}).requires_grad_(), up = at::randn({4});
  const at::Tensor y = ops::geglu(gate, up);
  expect_error([&] { torch::autograd::grad({y.sum()}, {gate}, {}, true, /*create_graph=*/true); },
               "geglu: has no second derivatives");
}

}  // namespace
}  // namespace darkformer::ops::geglu_test
