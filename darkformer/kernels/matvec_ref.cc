// The matrix-vector product as its definition says, in double.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/convert.h"
#include "darkformer/kernels/matvec.h"

namespace darkformer::kernels {

void matvec_ref(const StoredMatrix& W, const float* x, std::size_t N, double* y) {
  for (std::size_t n = 0; n < N; ++n) {
    for (std::size_t o = 0; o < W.rows; ++o) {
      double sum = 0.0;
      for (std::size_t i = 0; i < W.cols; ++i) {
        sum += static_cast<double>(stored_value(W.row(o), W.type, i)) * x[n * W.cols + i];
      }
      y[n * W.rows + o] = sum;
    }
  }
}

}  // namespace darkformer::kernels
