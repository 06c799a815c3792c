// Products with stored weights, by the road that suits the number of rows.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/linear.h"

#include <algorithm>

#include "darkformer/base/aligned_buffer.h"
#include "darkformer/base/threads.h"
#include "darkformer/kernels/convert.h"
#include "darkformer/kernels/gemm.h"
#include "darkformer/kernels/matvec.h"

namespace darkformer::kernels {
namespace {

// A widened block of W: 2 MiB, which stays in cache between its conversion and its product.
constexpr std::size_t kBlockValues = std::size_t{1} << 19U;
constexpr std::size_t kLeastBlockRows = 16;

// y[:, first + o] <- x rows[o]^T for the `count` widened rows of W from `first`.
void multiply_rows(const StoredMatrix& W,
                   std::size_t first,
                   std::size_t count,
                   const float* rows,
                   const float* x,
                   std::size_t N,
                   float* y) {
  gemm({.m = N,
        .n = count,
        .k = W.cols,
        .a = x,
        .lda = W.cols,
        .b = rows,
        .ldb = W.cols,
        .trans_b = true,
        .c = y + first,
        .ldc = W.rows});
}

std::size_t block_rows(const StoredMatrix& W) {
  const auto workers = static_cast<std::size_t>(threads());
  const std::size_t share = (W.rows + workers - 1) / workers;
  const std::size_t fitting = kBlockValues / std::max<std::size_t>(1, W.cols);
  return std::max(kLeastBlockRows, std::min(share, fitting));
}

}  // namespace

void linear(const StoredMatrix& W, const float* x, std::size_t N, float* y) {
  if (N <= kMatvecVectors) {
    matvec(W, x, N, y);
    return;
  }
  if (W.type == StoredType::kFloat32) {
    multiply_rows(W, 0, W.rows, static_cast<const float*>(W.data), x, N, y);
    return;
  }
  const std::size_t block = block_rows(W);
  parallel_ranges((W.rows + block - 1) / block, 1, [&](std::size_t begin, std::size_t end) {
    AlignedBuffer<float> widened(block * W.cols);
    for (std::size_t first = begin * block; first < std::min(end * block, W.rows); first += block) {
      const std::size_t count = std::min(block, W.rows - first);
      convert_to_float(W.row(first), W.type, count * W.cols, widened.data());
      multiply_rows(W, first, count, widened.data(), x, N, y);
    }
  });
}

}  // namespace darkformer::kernels
