// The matrix product as its definition says, in double.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/gemm.h"

namespace darkformer::kernels {
namespace {

double element(const float* matrix, std::size_t ld, bool trans, std::size_t row, std::size_t col) {
  return trans ? matrix[col * ld + row] : matrix[row * ld + col];
}

}  // namespace

void gemm_ref(const Gemm& g) {
  for (std::size_t i = 0; i < g.m; ++i) {
    for (std::size_t j = 0; j < g.n; ++j) {
      double sum = 0.0;
      for (std::size_t p = 0; p < g.k; ++p) {
        sum += element(g.a, g.lda, g.trans_a, i, p) * element(g.b, g.ldb, g.trans_b, p, j);
      }
      float& c = g.c[i * g.ldc + j];
      const double kept = g.beta == 0.0F ? 0.0 : static_cast<double>(g.beta) * c;
      c = static_cast<float>(g.alpha * sum + kept);
    }
  }
}

}  // namespace darkformer::kernels
