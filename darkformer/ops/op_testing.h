// What the op tests share: outputs and every gradient by name against double autograd of the plain
// formula.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <string>
#include <vector>

#include "darkformer/base/error.h"
#include "darkformer/base/tolerance.h"

namespace darkformer::ops {

using Tensors = std::vector<at::Tensor>;

// |got - want| <= 8 eps terms max|want| everywhere: each value is a sum of about `terms` products
// of which none is larger than the largest result, in float32.
inline void expect_close(const std::string& name,
                         const at::Tensor& got,
                         const at::Tensor& want,
                         std::int64_t terms) {
  ASSERT_TRUE(got.defined()) << name;
  ASSERT_EQ(got.sizes(), want.sizes()) << name;
  if (want.numel() == 0) {
    return;
  }
  const double size = want.abs().max().item<double>();
  const double error = (got.to(at::kDouble) - want.to(at::kDouble)).abs().max().item<double>();
  EXPECT_LE(error, 8 * kEpsFloat * static_cast<double>(terms) * size) << name;  // false for NaN
}

struct NamedTensor {
  std::string name;
  at::Tensor value;
};

// Runs `op` on float32 leaves and on double ones (where the op is the plain formula under ATen's
// autograd) and compares the output and the gradient of each input under one random cotangent.
inline void check_gradients(const std::vector<NamedTensor>& inputs,
                            const std::function<at::Tensor(const Tensors&)>& op,
                            std::int64_t terms) {
  Tensors single, twice;
  for (const NamedTensor& input : inputs) {
    single.push_back(input.value.detach().requires_grad_());
    twice.push_back(input.value.detach().to(at::kDouble).requires_grad_());
  }
  const at::Tensor got = op(single), want = op(twice);
  ASSERT_EQ(got.scalar_type(), at::kFloat);
  ASSERT_EQ(want.scalar_type(), at::kDouble);
  expect_close("output", got, want, terms);
  const at::Tensor cotangent = at::randn(got.sizes(), got.options());
  const auto grads = torch::autograd::grad({got}, single, {cotangent});
  const auto truth = torch::autograd::grad({want}, twice, {cotangent.to(at::kDouble)});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    expect_close("d" + inputs[i].name, grads[i], truth[i], terms);
  }
}

// The op must throw an Error of one line that starts with `start`.
inline void expect_error(const std::function<void()>& op, const std::string& start) {
  try {
    op();
    FAIL() << "no error; wanted " << start;
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.rfind(start, 0), 0U) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }
}

}  // namespace darkformer::ops
