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

// dx <- dy[:, first:first+count] rows + beta dx for the `count` widened rows of W from `first`.
void multiply_back(const StoredMatrix& W,
                   std::size_t first,
                   std::size_t count,
                   const float* rows,
                   const float* dy,
                   std::size_t N,
                   float* dx) {
  gemm({.m = N,
        .n = W.cols,
        .k = count,
        .a = dy + first,
        .lda = W.rows,
        .b = rows,
        .ldb = W.cols,
        .c = dx,
        .ldc = W.cols,
        .beta = first == 0 ? 0.0F : 1.0F});
}

// to <- rows [first, first + count) of W, threads sharing the rows.
void widen_rows(const StoredMatrix& W, std::size_t first, std::size_t count, float* to) {
  parallel_ranges(count, kLeastBlockRows, [&](std::size_t begin, std::size_t end) {
    convert_to_float(W.row(first + begin), W.type, (end - begin) * W.cols, to + begin * W.cols);
  });
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

// The blocks of W are terms of one sum, so they follow each other and the threads share each.
void linear_backward_input(const StoredMatrix& W, const float* dy, std::size_t N, float* dx) {
  if (W.type == StoredType::kFloat32 || W.rows == 0) {
    multiply_back(W, 0, W.rows, static_cast<const float*>(W.data), dy, N, dx);
    return;
  }
  const std::size_t block =
      std::max(kLeastBlockRows, kBlockValues / std::max<std::size_t>(1, W.cols));
  AlignedBuffer<float> widened(std::min(block, W.rows) * W.cols);
  for (std::size_t first = 0; first < W.rows; first += block) {
    const std::size_t count = std::min(block, W.rows - first);
    widen_rows(W, first, count, widened.data());
    multiply_back(W, first, count, widened.data(), dy, N, dx);
  }
}

void linear_backward_weight(const LinearShape& shape, const float* x, const float* dy, float* dW) {
  gemm({.m = shape.out,
        .n = shape.in,
        .k = shape.N,
        .a = dy,
        .lda = shape.out,
        .trans_a = true,
        .b = x,
        .ldb = shape.in,
        .c = dW,
        .ldc = shape.in});
}

}  // namespace darkformer::kernels
