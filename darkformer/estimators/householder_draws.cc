// QR of one block after the other.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/estimators/householder_draws.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace darkformer::estimators {
namespace {

// The signs that Householder QR gives the diagonal of R for the columns whose Gram-Schmidt basis
// has R positive, found by doing the reflections. `a` holds the columns of the matrix as rows.
Vector diagonal_signs(Matrix a) {
  const std::size_t n = a.rows();
  Vector signs(n, 1.0);
  for (std::size_t c = 0; c < n; ++c) {
    const auto x = a.row(c).subspan(c);
    signs[c] = x[0] > 0.0 ? -1.0 : 1.0;
    if (c + 1 == n) {
      signs[c] = x[0] > 0.0 ? 1.0 : -1.0;  // a single entry is left as it is
      break;
    }
    Vector v(x.begin(), x.end());
    v[0] += std::copysign(std::sqrt(squared_norm(x)), x[0]);
    const double size = squared_norm(v);
    for (std::size_t other = c; other < n; ++other) {
      const auto y = a.row(other).subspan(c);
      const double along = 2.0 * dot(y, v) / size;
      for (std::size_t i = 0; i < v.size(); ++i) {
        y[i] -= along * v[i];
      }
    }
  }
  return signs;
}

// Rows <- orthonormal rows of the same spans, in order: Q^T with R's diagonal positive.
void orthonormalise(Matrix& rows) {
  for (std::size_t i = 0; i < rows.rows(); ++i) {
    const auto row = rows.row(i);
    for (std::size_t before = 0; before < i; ++before) {
      const double along = dot(row, rows.row(before));
      for (std::size_t j = 0; j < row.size(); ++j) {
        row[j] -= along * rows(before, j);
      }
    }
    const double length = std::sqrt(squared_norm(row));
    for (double& value : row) {
      value /= length;
    }
  }
}

}  // namespace

Matrix householder_draws(std::size_t count,
                         std::size_t size,
                         bool fixed,
                         const RandomSource& source) {
  assert(count % size == 0);
  const Matrix normals = normal_matrix(2 * count, size, source);
  Matrix draws(count, size);
  for (std::size_t first = 0; first < count; first += size) {
    Matrix block(size, size);
    std::copy_n(&normals.values()[first * size], size * size, block.values().begin());
    const Vector signs = fixed ? Vector(size, 1.0) : diagonal_signs(block);
    orthonormalise(block);
    for (std::size_t i = 0; i < size; ++i) {
      const double length = std::sqrt(squared_norm(normals.row(count + first + i)));
      for (std::size_t j = 0; j < size; ++j) {
        draws(first + i, j) = signs[i] * length * block(i, j);
      }
    }
  }
  return draws;
}

}  // namespace darkformer::estimators
