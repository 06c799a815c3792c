// Attention that looks nowhere in particular: the paper's two baselines without a kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace darkformer::ops {

// Weights w(h,t,s) uniform in (0,1), normalised over s <= t: a pure function of the numbers below.
struct RandomWeights {
  std::int64_t seed = 0, layer = 0, index = 0;  // index: the redraw
  std::int64_t heads = 0;                       // H
};

// out (B,H,T,Dv) <- sum_s w(h,t,s) v_s / sum_s w(h,t,s) from v (B,G,S,Dv): the T = S - start
// queries from token `start` on, each over the keys up to its own. Differentiable in v. float32 on
// the CPU.
at::Tensor random_attention(const at::Tensor& v,
                            const RandomWeights& weights,
                            std::int64_t start = 0);

}  // namespace darkformer::ops
