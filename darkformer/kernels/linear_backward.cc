// Products with dy, blocks of a stored weight one after the other.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/linear_backward.h"

#include <algorithm>

#include "darkformer/base/aligned_buffer.h"
#include "darkformer/base/threads.h"
#include "darkformer/kernels/convert.h"
#include "darkformer/kernels/gemm.h"

namespace darkformer::kernels {
namespace {

// A widened block of the weight is 2 MiB: it stays in cache between conversion and product.
constexpr std::size_t kBlockValues = std::size_t{1} << 19U;
constexpr std::size_t kLeastBlockRows = 64;
constexpr std::size_t kRowsPerThread = 16;

// dx <- dy[:, first : first + count] widened (+ dx after the first block)
void multiply_back(const StoredMatrix& weight,
                   std::size_t first,
                   std::size_t count,
                   const float* widened,
                   const float* dy,
                   std::size_t rows,
                   float* dx) {
  gemm({.m = rows,
        .n = weight.cols,
        .k = count,
        .a = dy + first,
        .lda = weight.rows,
        .b = widened,
        .ldb = weight.cols,
        .c = dx,
        .ldc = weight.cols,
        .beta = first == 0 ? 0.0F : 1.0F});
}

// to <- rows [first, first + count) of the weight, threads sharing them.
void widen_rows(const StoredMatrix& weight, std::size_t first, std::size_t count, float* to) {
  parallel_ranges(count, kRowsPerThread, [&](std::size_t begin, std::size_t end) {
    convert_to_float(weight.row(first + begin), weight.type, (end - begin) * weight.cols,
                     to + begin * weight.cols);
  });
}

}  // namespace

// The blocks are terms of one sum, so they follow each other and the threads share each.
void linear_backward_input(const StoredMatrix& weight,
                           const float* dy,
                           std::size_t rows,
                           float* dx) {
  if (weight.type == StoredType::kFloat32 || weight.rows == 0) {
    multiply_back(weight, 0, weight.rows, static_cast<const float*>(weight.data), dy, rows, dx);
    return;
  }
  const std::size_t fitting = kBlockValues / std::max<std::size_t>(1, weight.cols);
  const std::size_t block = std::min(weight.rows, std::max(kLeastBlockRows, fitting));
  AlignedBuffer<float> widened(block * weight.cols);
  for (std::size_t first = 0; first < weight.rows; first += block) {
    const std::size_t count = std::min(block, weight.rows - first);
    widen_rows(weight, first, count, widened.data());
    multiply_back(weight, first, count, widened.data(), dy, rows, dx);
  }
}

void linear_backward_weight(const LinearShape& shape,
                            const float* x,
                            const float* dy,
                            float* dweight) {
  gemm({.m = shape.out,
        .n = shape.in,
        .k = shape.rows,
        .a = dy,
        .lda = shape.out,
        .trans_a = true,
        .b = x,
        .ldb = shape.in,
        .c = dweight,
        .ldc = shape.in});
}

}  // namespace darkformer::kernels
