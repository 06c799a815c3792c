// Gated units: output and gradients against the plain formula; wrong arguments.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/ops/gated_unit.h"

#include "darkformer/ops/op_testing.h"

namespace darkformer::ops::gated_unit_test {
namespace {

at::Tensor geglu(const Tensors& in) {
  return ops::gated_unit(in[0], in[1], Activation::kGeluTanh);
}
at::Tensor swiglu(const Tensors& in) {
  return ops::gated_unit(in[0], in[1], Activation::kSilu);
}

TEST(GatedUnitOp, GradientsEqualThoseOfTheFormula) {
  for (const std::int64_t count : {1, 7, 16, 33, 1000}) {
    for (const auto& unit : {geglu, swiglu}) {
      check_gradients({{"gate", 2 * at::randn({count})}, {"up", at::randn({count})}}, unit, 8);
    }
  }
}

TEST(GatedUnitOp, TakesAnyStrides) {
  check_gradients(
      {{"gate", at::randn({5, 6}).transpose(0, 1)}, {"up", at::randn({1, 5}).expand({6, 5})}},
      geglu, 8);
}

TEST(GatedUnitOp, RefusesWrongArguments) {
  const at::Tensor gate = at::randn({4, 3});
  expect_error(
      [&] {
        ops::gated_unit(gate, at::randn({3, 4}), Activation::kGeluTanh);
      },
      "gated_unit: gate is float32 [4, 3] but up is");
  expect_error([&] { ops::gated_unit(gate, gate.to(at::kDouble), Activation::kGeluTanh); },
               "gated_unit: gate is float32 [4, 3] but up");
  expect_error([&] { ops::gated_unit(gate, gate.to(at::kLong), Activation::kGeluTanh); },
               "gated_unit: up is int64");
}

TEST(GatedUnitOp, RefusesSecondDerivatives) {
  const at::Tensor gate = at::randn({4}).requires_grad_(), up = at::randn({4});
  const at::Tensor y = ops::gated_unit(gate, up, Activation::kGeluTanh);
  expect_error([&] { torch::autograd::grad({y.sum()}, {gate}, {}, true, /*create_graph=*/true); },
               "gated_unit: has no second derivatives");
}

}  // namespace
}  // namespace darkformer::ops::gated_unit_test
