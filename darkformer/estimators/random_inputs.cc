// Normals from Philox, rotations from orthogonal draws.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/estimators/random_inputs.h"

#include <algorithm>
#include <cmath>

#include "darkformer/base/philox.h"
#include "darkformer/estimators/feature_family.h"

namespace darkformer::estimators {

Matrix normal_matrix(std::size_t count, std::size_t size, const RandomSource& source) {
  Matrix values(count, size);
  Philox(source.seed, source.stream, source.index).fill_normal(values.values());
  return values;
}

Matrix random_rotation(std::size_t size, const RandomSource& source) {
  Matrix rows = white_draws(size, size, true, source.seed, source.stream, source.index);
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t before = 0; before < i; ++before) {  // draws are float: once more in double
      const double along = dot(rows.row(i), rows.row(before));
      const Vector straight = add(rows.row(i), rows.row(before), -along);
      std::ranges::copy(straight, rows.row(i).begin());
    }
    const double length = std::sqrt(squared_norm(rows.row(i)));
    for (double& value : rows.row(i)) {
      value /= length;
    }
  }
  return rows;
}

Vector geometric_spectrum(std::size_t size, double mean, double condition) {
  Vector values(size, 1.0);
  double sum = 0.0;
  for (std::size_t i = 0; i < size; ++i) {
    const double where = size > 1 ? static_cast<double>(i) / static_cast<double>(size - 1) : 0.0;
    values[i] = std::pow(condition, where);
    sum += values[i];
  }
  for (double& value : values) {
    value *= mean * static_cast<double>(size) / sum;
  }
  return values;
}

Matrix covariance_with(std::span<const double> values, const Matrix& rotation) {
  return matrix_function({Vector(values.begin(), values.end()), rotation},
                         [](double x) { return x; });
}

Matrix gaussian_rows(std::size_t count,
                     std::span<const double> mean,
                     const Matrix& covariance,
                     const RandomSource& source) {
  const Matrix root = matrix_function(symmetric_spectrum(covariance),
                                      [](double x) { return std::sqrt(std::max(x, 0.0)); });
  Matrix rows = multiply(normal_matrix(count, mean.size(), source), root);
  for (std::size_t i = 0; i < count; ++i) {
    const Vector moved = add(rows.row(i), mean);
    std::ranges::copy(moved, rows.row(i).begin());
  }
  return rows;
}

}  // namespace darkformer::estimators
