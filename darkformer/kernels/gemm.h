// The one door to float32 matrix products: C <- alpha op(A) op(B) + beta C on oneDNN, small
// ones on tiles of our own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace darkformer::kernels {

// One product. All matrices are row-major; ld is the distance between rows as stored.
//   op(A) is m x k: A is stored (m,k), or (k,m) when trans_a; op(B) is k x n alike; C is m x n.
// With beta = 0 the old C is not read (NaN in it does not leak). k = 0 and alpha = 0
// give C <- beta C. C must not overlap A or B.
struct Gemm {
  std::size_t m = 0;
  std::size_t n = 0;
  std::size_t k = 0;
  const float* a = nullptr;
  std::size_t lda = 0;
  bool trans_a = false;
  const float* b = nullptr;
  std::size_t ldb = 0;
  bool trans_b = false;
  float* c = nullptr;
  std::size_t ldc = 0;
  float alpha = 1.0F;
  float beta = 0.0F;
};

// `count` products of one shape: product i starts at a + i * stride_a, and so on. A stride of 0
// for A or B shares the matrix; the C matrices must not overlap.
struct GemmBatch {
  std::size_t count = 0;
  std::size_t stride_a = 0;
  std::size_t stride_b = 0;
  std::size_t stride_c = 0;
};

// Runs on up to threads() threads; on the calling thread alone inside a parallel_for. The same
// thread count gives the same bits; another one may round differently. Safe from several threads.
void gemm(const Gemm& product);

// Threads run over the products where each is small or there are enough of them, and inside each
// product otherwise; never both.
void gemm_batch(const Gemm& first, const GemmBatch& batch);

// The same in plain loops with double sums: what gemm is tested against.
void gemm_ref(const Gemm& product);

}  // namespace darkformer::kernels
