// One problem of attention, run by our kernels and by the rivals in plain ATen calls.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "darkformer/kernels/dark_problem.h"
#include "darkformer/kernels/exact_attention.h"

namespace darkformer {

// Causal attention of random q, k, v with as many kv heads as heads. What a run allocates and
// gives back is part of its time, on both sides; ours allocates as the ops do (ops/fresh_tensor.h).
class AttentionRuns {
 public:
  AttentionRuns(std::int64_t heads, std::int64_t length, std::int64_t size, std::int64_t features);

  at::Tensor features_forward() const;
  void features_both() const;  // forward and backward
  at::Tensor exact_forward() const;
  void exact_both() const;

  at::Tensor rival_features_forward() const;
  void rival_features_both() const;
  at::Tensor rival_exact_forward() const;
  void rival_exact_both() const;

  // Error: a forward pass of ours is off the double reference (short problems only: it is
  // quadratic in double), or a rival's off ours.
  void check_against_reference() const;
  void check_against_rivals() const;

  // q, k, v and the output: what a forward pass must at least read and write.
  std::int64_t bytes() const;

 private:
  kernels::ExactAttention exact_shape() const;
  std::vector<at::Tensor> leaves() const;
  void rival_backward(const at::Tensor& out) const;

  kernels::DarkProblem problem_;
  at::Tensor q_, k_, v_, d_o_, draws_;  // views of the problem's values
};

}  // namespace darkformer
