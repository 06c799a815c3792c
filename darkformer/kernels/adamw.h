// One step of Adam with decoupled weight decay, fused over an array.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace darkformer::kernels {

struct AdamwSettings {
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  double gradient_scale = 1.0;  // clipping, or the mean over accumulated batches
  std::int64_t step = 1;        // of this update, from 1
};

// All arrays hold `count` float32 values; g is read only and overlaps none of the others.
struct AdamwArrays {
  float* p;
  const float* g;
  float* m;
  float* v;
  std::size_t count;
};

// With g' = gradient_scale g, t = step:
//   m <- beta1 m + (1 - beta1) g'          v <- beta2 v + (1 - beta2) g'^2
//   p <- p (1 - lr weight_decay) - lr / (1 - beta1^t)  m / (sqrt(v / (1 - beta2^t)) + epsilon)
// The corrections are computed in double. Threads share the values; elementwise, so the bits do
// not depend on the thread count.
void adamw_step(const AdamwSettings& settings, const AdamwArrays& arrays);

// The same in double: p, m, v of the results, from the arrays before the step.
void adamw_step_ref(
    const AdamwSettings& settings, const AdamwArrays& before, double* p, double* m, double* v);

}  // namespace darkformer::kernels
