// A bfloat16 product in libtorch must not die: on hosts that report AMX and hide its leaves it
// would, were oneDNN's instruction set not capped when the kernels load.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "darkformer/kernels/cpu_features.h"

namespace darkformer {
namespace {

TEST(Bfloat16, LibtorchProductsRun) {
  EXPECT_FALSE(kernels::cap_unsafe_isa().empty());  // says what it did, or that nothing was needed
  const at::Tensor a = at::randn({130, 70}), b = at::randn({70, 50});
  const at::Tensor product = at::matmul(a.to(at::kBFloat16), b.to(at::kBFloat16)).to(at::kFloat);
  // Inputs and output are rounded to 8 bits; 70 terms of size one.
  EXPECT_LT((product - at::matmul(a, b)).abs().max().item<double>(), 0.5);
}

}  // namespace
}  // namespace darkformer
