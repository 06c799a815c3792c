// Softmax attention as an op: the baseline, and the exact layers of a model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "darkformer/ops/libtorch.h"

namespace darkformer::ops {

struct ExactOptions {
  Optional<double> scale;   // none: D^-1/2
  bool causal = true;       // with S != T the last query sees the last key
  std::int64_t window = 0;  // keys a query sees, its own included; 0: unlimited; needs causal
  double softcap = 0.0;     // cap tanh(score / cap); 0: none
};

// out (B,H,T,Dv) from q (B,H,T,D), k (B,G,S,D), v (B,G,S,Dv); H % G == 0. Differentiable in q, k,
// v. float32 and bfloat16 on the CPU run our kernels (float32 inside), all else a composition of
// ATen calls (quadratic in memory).
at::Tensor exact_attention(const at::Tensor& q,
                           const at::Tensor& k,
                           const at::Tensor& v,
                           const ExactOptions& options = {});

}  // namespace darkformer::ops
