// The attention op from C++: linear-time attention, its gradient, and decoding with a state of constant size.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/ops/dark_attention.h"

#include <ATen/ATen.h>

#include <iostream>

#include "darkformer/ops/draw_features.h"

int main() {
  namespace ops = darkformer::ops;
  const at::Tensor q = at::randn({1, 8, 1024, 64}).requires_grad_();  // 8 query heads
  const at::Tensor k = at::randn({1, 2, 1024, 64});                   // on 2 kv heads
  const at::Tensor v = at::randn({1, 2, 1024, 64});
  const at::Tensor draws = ops::draw_features(2, 256, 64, /*seed=*/1, 0, 0, /*orthogonal=*/true);
  ops::DarkOptions options;
  options.factor = at::eye(64).repeat({2, 1, 1}).requires_grad_();  // M: the covariance is MᵀM
  const at::Tensor out = ops::dark_attention(q, k, v, draws, options);
  out.sum().backward();

  // The same sequence read in one go, then one more token: the state does not grow.
  at::NoGradGuard inference;
  ops::DarkPrefill read = ops::dark_attention_prefill(q, k, v, draws, options, {});
  const at::Tensor next =
      ops::dark_attention_step(at::randn({1, 8, 1, 64}), at::randn({1, 2, 1, 64}),
                               at::randn({1, 2, 1, 64}), draws, options, read.state);
  std::cout << out.sizes() << " then " << next.sizes() << ", |dM| "
            << options.factor->grad().norm().item<float>() << "\n";
}
