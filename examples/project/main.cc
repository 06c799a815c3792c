// The op from a project outside the tree: a small sum that Python gives too, and an error caught.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <darkformer/base/error.h>
#include <darkformer/ops/dark_attention.h>
#include <darkformer/ops/draw_features.h>
#include <darkformer/ops/exact_attention.h>

#include <cstdio>

int main() {
  namespace ops = darkformer::ops;
  const at::Tensor q = at::arange(4 * 20 * 8, at::kFloat).sin().reshape({1, 4, 20, 8});
  const at::Tensor k = at::arange(2 * 20 * 8, at::kFloat).cos().reshape({1, 2, 20, 8});
  const at::Tensor draws = ops::draw_features(2, 16, 8, /*seed=*/1, /*stream=*/0, /*index=*/0);
  ops::DarkOptions options;
  options.factor = at::eye(8).repeat({2, 1, 1}).requires_grad_();
  options.window = 4;
  const at::Tensor out = ops::dark_attention(q, k, k, draws, options);
  out.square().sum().backward();
  std::printf("draws %.6f dark %.6f |dM| %.6f exact %.6f\n", draws.sum().item<double>(),
              out.sum().item<double>(), options.factor->grad().norm().item<double>(),
              ops::exact_attention(q, k, k).sum().item<double>());
  try {
    ops::dark_attention(q, k, k, draws.narrow(1, 0, 0), options);
  } catch (const darkformer::Error& error) {
    std::printf("%s\n", error.what());
  }
}
