// Dense products in plain loops.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/estimators/matrix.h"

#include <cassert>
#include <cmath>
#include <limits>

namespace darkformer::estimators {

Matrix Matrix::identity(std::size_t size) {
  const Vector ones(size, 1.0);
  return diagonal(ones);
}

Matrix Matrix::diagonal(std::span<const double> values) {
  Matrix a(values.size(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    a(i, i) = values[i];
  }
  return a;
}

double dot(std::span<const double> x, std::span<const double> y) {
  assert(x.size() == y.size());
  double sum = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sum += x[i] * y[i];
  }
  return sum;
}

double squared_norm(std::span<const double> x) {
  return dot(x, x);
}

Vector add(std::span<const double> x, std::span<const double> y, double factor) {
  assert(x.size() == y.size());
  Vector sum(x.begin(), x.end());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    sum[i] += factor * y[i];
  }
  return sum;
}

Matrix transpose(const Matrix& a) {
  Matrix b(a.cols(), a.rows());
  for (std::size_t i = 0; i < a.rows(); ++i) {
    for (std::size_t j = 0; j < a.cols(); ++j) {
      b(j, i) = a(i, j);
    }
  }
  return b;
}

Matrix multiply(const Matrix& a, const Matrix& b) {
  assert(a.cols() == b.rows());
  Matrix c(a.rows(), b.cols());
  for (std::size_t i = 0; i < a.rows(); ++i) {
    for (std::size_t k = 0; k < a.cols(); ++k) {
      const double factor = a(i, k);
      for (std::size_t j = 0; j < b.cols(); ++j) {
        c(i, j) += factor * b(k, j);
      }
    }
  }
  return c;
}

Matrix multiply_transposed(const Matrix& a, const Matrix& b) {
  assert(a.cols() == b.cols());
  Matrix c(a.rows(), b.rows());
  for (std::size_t i = 0; i < a.rows(); ++i) {
    for (std::size_t j = 0; j < b.rows(); ++j) {
      c(i, j) = dot(a.row(i), b.row(j));
    }
  }
  return c;
}

Vector multiply(const Matrix& a, std::span<const double> x) {
  Vector y(a.rows());
  for (std::size_t i = 0; i < a.rows(); ++i) {
    y[i] = dot(a.row(i), x);
  }
  return y;
}

Matrix add(const Matrix& a, const Matrix& b, double factor) {
  assert(a.rows() == b.rows() && a.cols() == b.cols());
  Matrix c = a;
  for (std::size_t i = 0; i < c.values().size(); ++i) {
    c.values()[i] += factor * b.values()[i];
  }
  return c;
}

Matrix scale(const Matrix& a, double factor) {
  Matrix c = a;
  for (double& value : c.values()) {
    value *= factor;
  }
  return c;
}

Matrix outer(std::span<const double> x, std::span<const double> y) {
  Matrix a(x.size(), y.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = 0; j < y.size(); ++j) {
      a(i, j) = x[i] * y[j];
    }
  }
  return a;
}

double trace(const Matrix& a) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.rows(); ++i) {
    sum += a(i, i);
  }
  return sum;
}

double largest(const Matrix& a) {
  double most = 0.0;
  for (const double value : a.values()) {
    if (!std::isfinite(value)) {
      return std::numeric_limits<double>::infinity();
    }
    most = std::max(most, std::abs(value));
  }
  return most;
}

}  // namespace darkformer::estimators
