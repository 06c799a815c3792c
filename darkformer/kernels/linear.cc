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

// A matrix is cut in at least 8 blocks, so that there is work for threads, of 64 rows or more, so
// that the product's inner loop is full. A widened block is kept to 2 MiB, so that it stays in
// cache between its conversion and its product, but not to fewer than 256 rows: each product reads
// all of x again (linear_bench, in = 16384).
constexpr std::size_t kLeastBlocks = 8;
constexpr std::size_t kLeastRows = 64;
constexpr std::size_t kBlockValues = std::size_t{1} << 19U;
constexpr std::size_t kRowsWorthReading = 256;

// y[:, first + o] <- x widened[o]^T, for `count` widened rows of the weight from `first`.
void multiply_rows(const StoredMatrix& weight,
                   std::size_t first,
                   std::size_t count,
                   const float* widened,
                   const float* x,
                   std::size_t rows,
                   float* y) {
  gemm({.m = rows,
        .n = count,
        .k = weight.cols,
        .a = x,
        .lda = weight.cols,
        .b = widened,
        .ldb = weight.cols,
        .trans_b = true,
        .c = y + first,
        .ldc = weight.rows});
}

std::size_t block_rows(const StoredMatrix& weight) {
  const std::size_t share = (weight.rows + kLeastBlocks - 1) / kLeastBlocks;
  const std::size_t fitting = kBlockValues / std::max<std::size_t>(1, weight.cols);
  return std::clamp(share, kLeastRows, std::max(kRowsWorthReading, fitting));
}

}  // namespace

void linear(const StoredMatrix& weight, const float* x, std::size_t rows, float* y) {
  if (rows <= kMatvecVectors) {
    matvec(weight, x, rows, y);
    return;
  }
  if (weight.type == StoredType::kFloat32) {
    multiply_rows(weight, 0, weight.rows, static_cast<const float*>(weight.data), x, rows, y);
    return;
  }
  const std::size_t block = block_rows(weight);
  parallel_ranges((weight.rows + block - 1) / block, 1, [&](std::size_t begin, std::size_t end) {
    AlignedBuffer<float> widened(block * weight.cols);
    for (std::size_t first = begin * block; first < std::min(end * block, weight.rows);
         first += block) {
      const std::size_t count = std::min(block, weight.rows - first);
      convert_to_float(weight.row(first), weight.type, count * weight.cols, widened.data());
      multiply_rows(weight, first, count, widened.data(), x, rows, y);
    }
  });
}

}  // namespace darkformer::kernels
