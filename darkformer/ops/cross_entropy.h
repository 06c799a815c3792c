// Next-token loss with the head's product inside, as a differentiable op.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace darkformer::ops {

// One value for each target.
struct CrossEntropy {
  at::Tensor loss;           // float32 or float64 as hidden; 0 where the target is left out
  at::Tensor correct;        // bool: the target has the largest logit (the first of equals)
  std::int64_t counted = 0;  // targets that are not left out

  at::Tensor mean() const;             // over the counted targets; differentiable
  std::int64_t correct_count() const;  // of the counted targets
};

// l[n] = hidden[n] weight^T, then softcap tanh(l / softcap) if softcap > 0; loss = lse(l) -
// l[target]
//   hidden (..., E) float32 or float64; weight (V, E) float32, bfloat16, float16 or float64;
//   targets (...) int64 or int32 below V, a negative one leaves its place out.
// Logits exist only in blocks (float32 on the CPU). Differentiable in hidden, and in a float32
// weight that asks for it.
CrossEntropy cross_entropy(const at::Tensor& hidden,
                           const at::Tensor& weight,
                           const at::Tensor& targets,
                           double softcap = 0.0);

}  // namespace darkformer::ops
