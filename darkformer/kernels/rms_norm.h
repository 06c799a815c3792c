// RMSNorm over rows, forward and backward.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace darkformer::kernels {

struct RmsNormShape {
  std::size_t rows = 0, E = 0;
  float epsilon = 1e-6F;
  float unit = 1.0F;  // what a weight is added to: 1 in Gemma 1 to 3, 0 elsewhere
};

// y <- x r (unit + w),  r = (mean_e x^2 + epsilon)^(-1/2) of each row.
//   x, y (rows,E) contiguous; w (E). y may be x. Threads share the rows.
// A row of zeros gives zeros. Finite while mean x^2 is a finite float32.
void rms_norm(const RmsNormShape& shape, const float* x, const float* w, float* y);

// With g = dy (unit + w):  dx <- r g - x r^3 mean_e(g x),  dw <- sum over rows of dy x r.
//   dx (rows,E), may be dy or x; dw (E); either may be null and is then not computed.
// dw is summed in blocks of rows that do not depend on the thread count: neither do the bits.
struct RmsNormGradients {
  float* dx = nullptr;
  float* dw = nullptr;
};
void rms_norm_backward(const RmsNormShape& shape,
                       const float* x,
                       const float* w,
                       const float* dy,
                       const RmsNormGradients& gradients);

// The same in double, in plain loops.
void rms_norm_ref(const RmsNormShape& shape, const float* x, const float* w, double* y);
void rms_norm_backward_ref(const RmsNormShape& shape,
                           const float* x,
                           const float* w,
                           const float* dy,
                           double* dx,
                           double* dw);

}  // namespace darkformer::kernels
