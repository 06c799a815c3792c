// Draws by Philox, orthogonal blocks by Gram-Schmidt in double.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/draw_features.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "darkformer/base/philox.h"
#include "darkformer/base/threads.h"

namespace darkformer::kernels {
namespace {

double dot(const double* x, const double* y, std::size_t count) {
  double sum = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    sum += x[i] * y[i];
  }
  return sum;
}

// row <- row minus its parts along the unit rows before it; returns what length is left.
double orthogonalise(double* row, const double* before, std::size_t count, std::size_t R) {
  for (std::size_t i = 0; i < count; ++i) {
    const double along = dot(row, before + i * R, R);
    for (std::size_t r = 0; r < R; ++r) {
      row[r] -= along * before[i * R + r];
    }
  }
  return std::sqrt(dot(row, row, R));
}

// Gram-Schmidt leaves a positive diagonal in the triangular factor, which is the sign fix that
// makes Q Haar distributed (a library's QR without it is biased). Twice, because once loses
// orthogonality.
void orthonormal_rows(double* block, std::size_t rows, std::size_t R) {
  for (std::size_t f = 0; f < rows; ++f) {
    double* row = block + f * R;
    for (int pass = 0; pass < 2; ++pass) {
      const double length = orthogonalise(row, block, f, R);
      for (std::size_t r = 0; r < R; ++r) {
        row[r] /= length;
      }
    }
  }
}

// One block of at most R rows: directions from the elements of the rows, lengths from elements of
// their own.
void draw_block(const Philox& random,
                std::size_t first_row,
                std::size_t rows,
                std::size_t all_rows,
                std::size_t R,
                float* out) {
  std::vector<double> block(rows * R), length(R);
  random.fill_normal(std::span<double>(block), first_row * R);
  orthonormal_rows(block.data(), rows, R);
  for (std::size_t f = 0; f < rows; ++f) {
    random.fill_normal(std::span<double>(length), (all_rows + first_row + f) * R);
    const double chi = std::sqrt(dot(length.data(), length.data(), R));
    std::transform(&block[f * R], &block[f * R] + R, out + f * R,
                   [chi](double x) { return static_cast<float>(chi * x); });
  }
}

}  // namespace

void draw_features(const DrawShape& shape, float* draws) {
  const Philox random(shape.seed, shape.stream, shape.index);
  const std::size_t R = shape.rank, F = shape.features, all_rows = shape.groups * F;
  if (!shape.orthogonal) {
    random.fill_normal(std::span<float>(draws, all_rows * R));
    return;
  }
  const std::size_t blocks = (F + R - 1) / R;
  parallel_for(shape.groups * blocks, [&](std::size_t i) {
    const std::size_t begin = i % blocks * R, row = i / blocks * F + begin;
    draw_block(random, row, std::min(R, F - begin), all_rows, R, draws + row * R);
  });
}

}  // namespace darkformer::kernels
