// Small dense matrices in double: what the estimators need of linear algebra, and no more.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace darkformer::estimators {

using Vector = std::vector<double>;

// Row-major (rows,cols).
class Matrix {
 public:
  Matrix() = default;
  Matrix(std::size_t rows, std::size_t cols, double value = 0.0)
      : rows_(rows), cols_(cols), values_(rows * cols, value) {}

  static Matrix identity(std::size_t size);
  static Matrix diagonal(std::span<const double> values);

  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  bool empty() const { return values_.empty(); }
  double& operator()(std::size_t i, std::size_t j) { return values_[i * cols_ + j]; }
  double operator()(std::size_t i, std::size_t j) const { return values_[i * cols_ + j]; }
  std::span<double> row(std::size_t i) { return {values_.data() + i * cols_, cols_}; }
  std::span<const double> row(std::size_t i) const { return {values_.data() + i * cols_, cols_}; }
  std::span<double> values() { return values_; }
  std::span<const double> values() const { return values_; }

 private:
  std::size_t rows_ = 0, cols_ = 0;
  std::vector<double> values_;
};

double dot(std::span<const double> x, std::span<const double> y);
double squared_norm(std::span<const double> x);
Vector add(std::span<const double> x, std::span<const double> y, double factor = 1.0);  // x + f y

Matrix transpose(const Matrix& a);
Matrix multiply(const Matrix& a, const Matrix& b);
Matrix multiply_transposed(const Matrix& a, const Matrix& b);  // a b^T
Vector multiply(const Matrix& a, std::span<const double> x);
Matrix add(const Matrix& a, const Matrix& b, double factor = 1.0);  // a + f b
Matrix scale(const Matrix& a, double factor);
Matrix outer(std::span<const double> x, std::span<const double> y);
double trace(const Matrix& a);
// The largest absolute entry; infinity where an entry is not finite.
double largest(const Matrix& a);

// A = sum over l of values[l] v_l v_l^T, v_l the rows of `vectors`, values ascending.
struct Spectrum {
  Vector values;
  Matrix vectors;

  std::size_t size() const { return values.size(); }
};

// Of a symmetric matrix (its lower triangle is read), by Householder and QL: accurate to a few
// eps |A|. Entries must be finite.
Spectrum symmetric_spectrum(const Matrix& a);
double log_det(const Spectrum& a);  // all values above 0
// sum over l of f(values[l]) v_l v_l^T
Matrix matrix_function(const Spectrum& a, const std::function<double(double)>& f);

}  // namespace darkformer::estimators
