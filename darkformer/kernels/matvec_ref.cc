// The matrix-vector product as its definition says, in double.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/convert.h"
#include "darkformer/kernels/matvec.h"

namespace darkformer::kernels {

void matvec_ref(const StoredMatrix& weight, const float* x, std::size_t vectors, double* y) {
  for (std::size_t n = 0; n < vectors; ++n) {
    for (std::size_t o = 0; o < weight.rows; ++o) {
      double sum = 0.0;
      for (std::size_t i = 0; i < weight.cols; ++i) {
        sum += static_cast<double>(stored_value(weight.row(o), weight.type, i)) *
               x[n * weight.cols + i];
      }
      y[n * weight.rows + o] = sum;
    }
  }
}

}  // namespace darkformer::kernels
