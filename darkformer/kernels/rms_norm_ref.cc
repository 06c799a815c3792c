// RMSNorm and its gradients as the formulas say, in double.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "darkformer/kernels/rms_norm.h"

namespace darkformer::kernels {
namespace {

double inverse_rms(const RmsNormShape& shape, const float* x) {
  double squares = 0.0;
  for (std::size_t e = 0; e < shape.E; ++e) {
    squares += static_cast<double>(x[e]) * x[e];
  }
  return 1.0 / std::sqrt(squares / static_cast<double>(shape.E) + shape.epsilon);
}

}  // namespace

void rms_norm_ref(const RmsNormShape& shape, const float* x, const float* w, double* y) {
  for (std::size_t row = 0; row < shape.rows; ++row) {
    const double r = inverse_rms(shape, x + row * shape.E);
    for (std::size_t e = 0; e < shape.E; ++e) {
      y[row * shape.E + e] = x[row * shape.E + e] * r * (shape.unit + static_cast<double>(w[e]));
    }
  }
}

void rms_norm_backward_ref(const RmsNormShape& shape,
                           const float* x,
                           const float* w,
                           const float* dy,
                           double* dx,
                           double* dw) {
  const std::size_t E = shape.E;
  std::fill(dw, dw + E, 0.0);
  for (std::size_t row = 0; row < shape.rows; ++row) {
    const std::size_t start = row * E;
    const double r = inverse_rms(shape, x + start);
    double inner = 0.0;  // mean_e(g x)
    for (std::size_t e = 0; e < E; ++e) {
      inner += dy[start + e] * (shape.unit + static_cast<double>(w[e])) * x[start + e] /
               static_cast<double>(E);
    }
    for (std::size_t e = 0; e < E; ++e) {
      const double g = dy[start + e] * (shape.unit + static_cast<double>(w[e]));
      dx[start + e] = r * g - x[start + e] * r * r * r * inner;
      dw[e] += static_cast<double>(dy[start + e]) * x[start + e] * r;
    }
  }
}

}  // namespace darkformer::kernels
