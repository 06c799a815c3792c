// Rotation: output and gradient against the plain formula; wrong arguments.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/ops/rotary.h"

#include "darkformer/ops/op_testing.h"

namespace darkformer::ops::rotary_test {
namespace {

std::shared_ptr<const RotaryTable> table_of(std::int64_t D, std::int64_t positions) {
  return make_rotary_table(D, 10000.0, 1.0, positions);
}

TEST(RotaryOp, GradientEqualsThatOfTheFormula) {
  for (const std::int64_t D : {2, 6, 16, 34}) {
    for (const std::int64_t T : {1, 5}) {
      const auto table = table_of(D, 20);
      check_gradients(
          {{"x", at::randn({2, 3, T, D})}},
          [&](const Tensors& in) { return ops::rotary(in[0], table, 7); }, 2);
    }
  }
}

TEST(RotaryOp, KeepsTheStridesOfHeads) {
  const auto table = table_of(8, 5);
  const at::Tensor x = at::randn({2, 5, 3, 8}).transpose(1, 2);  // (B,H,T,D), time outermost
  EXPECT_EQ(ops::rotary(x, table).strides(), x.strides());
  const auto rotate = [&](const Tensors& in) { return ops::rotary(in[0], table); };
  check_gradients({{"x", x}}, rotate, 2);
  check_gradients({{"x", at::randn({2, 3, 8, 5}).transpose(2, 3)}}, rotate, 2);
}

TEST(RotaryOp, BackwardKeepsTheTableAlive) {
  auto table = table_of(4, 3);
  const at::Tensor x = at::randn({1, 1, 3, 4}).requires_grad_();
  const at::Tensor y = ops::rotary(x, table);
  table.reset();
  y.square().sum().backward();
  expect_close("dx", x.grad(), 2 * x.detach(), 4);  // a rotation keeps the norm
}

TEST(RotaryOp, RefusesWrongArguments) {
  const auto table = table_of(4, 3);
  expect_error([&] { table_of(5, 3); }, "rotary: a table of 3 positions for heads of size 5");
  expect_error([&] { ops::rotary(at::randn({1, 1, 4, 4}), table); }, "rotary: positions 0 to 4");
  expect_error([&] { ops::rotary(at::randn({1, 1, 1, 4}), table, -1); }, "rotary: positions -1");
  expect_error(
      [&] {
        ops::rotary(at::randn({1, 1, 2, 6}), table);
      },
      "rotary: x is float32 [1, 1, 2, 6]");
}

}  // namespace
}  // namespace darkformer::ops::rotary_test
