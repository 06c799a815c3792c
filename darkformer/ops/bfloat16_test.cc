// A bfloat16 product in libtorch must not die: on hosts that report AMX and hide its leaves it
// would, were oneDNN's instruction set not capped when the kernels load.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "darkformer/kernels/cpu_features.h"

namespace darkformer::bfloat16_test {
namespace {

TEST(Bfloat16, LibtorchProductsRun) {
  EXPECT_FALSE(kernels::cap_unsafe_isa().empty());  // says what it did, or that nothing was needed
  const at::Tensor a = at::randn({130, 70}), b = at::randn({70, 50});
  const at::Tensor product = at::matmul(a.to(at::kBFloat16), b.to(at::kBFloat16)).to(at::kFloat);
  // Where the CPU has no such product, libtorch rounds to 8 bits not only both factors and the
  // result, but also each of the 70 sums.
  const at::Tensor bound = at::matmul(a.abs(), b.abs()) * ((70 + 3) * 0x1p-8);
  EXPECT_TRUE(((product - at::matmul(a, b)).abs() < bound).all().item<bool>());
  EXPECT_FALSE((at::matmul(a, b).abs() < bound).all().item<bool>());  // zero would not pass
}

}  // namespace
}  // namespace darkformer::bfloat16_test
