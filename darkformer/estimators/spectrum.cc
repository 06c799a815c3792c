// Eigenvalues of symmetric matrices: Householder reflections to a tridiagonal matrix, then QL with
// implicit shifts.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>

#include "darkformer/base/error.h"
#include "darkformer/estimators/matrix.h"

namespace darkformer::estimators {
namespace {

constexpr double kEps = std::numeric_limits<double>::epsilon();
constexpr int kMostSweeps = 60;  // of one eigenvalue; 2 or 3 are usual

struct Tridiagonal {
  Vector diagonal, beside;  // beside[i] joins i and i+1; the last is 0
  Matrix basis;             // its rows: A = basis^T T basis
};

// v such that (I - 2 v v^T / |v|^2) x has only a first entry. Zero: x has no other already.
Vector reflector(std::span<const double> x) {
  Vector v(x.begin(), x.end());
  const double rest = squared_norm(x.subspan(1));
  if (rest == 0.0) {
    return Vector(x.size(), 0.0);
  }
  v[0] += std::copysign(std::sqrt(x[0] * x[0] + rest), x[0]);
  return v;
}

// rows [first, n) of a <- (I - 2 v v^T / size) of them
void reflect_rows(Matrix& a, std::size_t first, const Vector& v, double size) {
  Vector sums(a.cols(), 0.0);
  for (std::size_t i = 0; i < v.size(); ++i) {
    const auto row = a.row(first + i);
    for (std::size_t j = 0; j < a.cols(); ++j) {
      sums[j] += v[i] * row[j];
    }
  }
  for (std::size_t i = 0; i < v.size(); ++i) {
    const auto row = a.row(first + i);
    const double factor = 2.0 * v[i] / size;
    for (std::size_t j = 0; j < a.cols(); ++j) {
      row[j] -= factor * sums[j];
    }
  }
}

// The trailing block of a, from `first` on: B <- H B H = B - v w^T - w v^T.
void reflect_block(Matrix& a, std::size_t first, const Vector& v, double size) {
  const std::size_t count = v.size();
  Vector w(count);
  for (std::size_t i = 0; i < count; ++i) {
    w[i] = 2.0 * dot(a.row(first + i).subspan(first), v) / size;
  }
  const double along = dot(v, w) / size;
  for (std::size_t i = 0; i < count; ++i) {
    w[i] -= along * v[i];
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto row = a.row(first + i).subspan(first);
    for (std::size_t j = 0; j < count; ++j) {
      row[j] -= v[i] * w[j] + w[i] * v[j];
    }
  }
}

Tridiagonal tridiagonal(Matrix a) {
  const std::size_t n = a.rows();
  Tridiagonal t{Vector(n), Vector(n, 0.0), Matrix::identity(n)};
  for (std::size_t k = 0; k + 1 < n; ++k) {
    Vector x(n - k - 1);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = a(k + 1 + i, k);
    }
    const Vector v = reflector(x);
    const double size = squared_norm(v);
    t.beside[k] = x[0];
    if (size > 0.0) {
      t.beside[k] = -std::copysign(std::sqrt(squared_norm(x)), x[0]);
      reflect_block(a, k + 1, v, size);
      reflect_rows(t.basis, k + 1, v, size);
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    t.diagonal[i] = a(i, i);
  }
  return t;
}

// rows i and i+1 of a <- rotated by (c, s)
void rotate_rows(Matrix& a, std::size_t i, double c, double s) {
  const auto low = a.row(i), high = a.row(i + 1);
  for (std::size_t j = 0; j < a.cols(); ++j) {
    const double x = low[j], y = high[j];
    low[j] = c * x - s * y;
    high[j] = s * x + c * y;
  }
}

// One implicit QL sweep on entries l .. m.
void sweep(Tridiagonal& t, std::size_t l, std::size_t m) {
  Vector &d = t.diagonal, &e = t.beside;
  double g = (d[l + 1] - d[l]) / (2.0 * e[l]);
  g = d[m] - d[l] + e[l] / (g + std::copysign(std::hypot(g, 1.0), g));
  double s = 1.0, c = 1.0, p = 0.0;
  for (std::size_t i = m; i-- > l;) {
    const double f = s * e[i], b = c * e[i];
    double r = std::hypot(f, g);
    e[i + 1] = r;
    if (r == 0.0) {  // split here
      d[i + 1] -= p;
      e[m] = 0.0;
      return;
    }
    s = f / r, c = g / r;
    g = d[i + 1] - p;
    r = (d[i] - g) * s + 2.0 * c * b;
    p = s * r;
    d[i + 1] = g + p;
    g = c * r - b;
    rotate_rows(t.basis, i, c, s);
  }
  d[l] -= p;
  e[l] = g;
  e[m] = 0.0;
}

void diagonalise(Tridiagonal& t) {
  const std::size_t n = t.diagonal.size();
  double size = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    size = std::max({size, std::abs(t.diagonal[i]), std::abs(t.beside[i])});
  }
  const auto negligible = [&](std::size_t i) {
    return std::abs(t.beside[i]) <=
           kEps * (std::abs(t.diagonal[i]) + std::abs(t.diagonal[i + 1])) + kEps * kEps * size;
  };
  for (std::size_t l = 0; l < n; ++l) {
    for (int sweeps = 0;; ++sweeps) {
      std::size_t m = l;
      while (m + 1 < n && !negligible(m)) {
        ++m;
      }
      if (m == l) {
        break;
      }
      require(sweeps < kMostSweeps, "eigenvalues of a matrix of size ", n, " do not converge");
      sweep(t, l, m);
    }
  }
}

}  // namespace

Spectrum symmetric_spectrum(const Matrix& a) {
  assert(a.rows() == a.cols());
  require(std::isfinite(largest(a)), "eigenvalues: the matrix has entries that are not finite");
  Tridiagonal t = tridiagonal(a);
  diagonalise(t);
  std::vector<std::size_t> order(a.rows());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [&](std::size_t i, std::size_t j) { return t.diagonal[i] < t.diagonal[j]; });
  Spectrum spectrum{Vector(a.rows()), Matrix(a.rows(), a.rows())};
  for (std::size_t i = 0; i < order.size(); ++i) {
    spectrum.values[i] = t.diagonal[order[i]];
    std::ranges::copy(t.basis.row(order[i]), spectrum.vectors.row(i).begin());
  }
  return spectrum;
}

double log_det(const Spectrum& a) {
  double sum = 0.0;
  for (const double value : a.values) {
    sum += std::log(value);
  }
  return sum;
}

Matrix matrix_function(const Spectrum& a, const std::function<double(double)>& f) {
  const std::size_t n = a.size();
  Matrix scaled(n, n);
  for (std::size_t l = 0; l < n; ++l) {
    const double value = f(a.values[l]);
    for (std::size_t j = 0; j < n; ++j) {
      scaled(l, j) = value * a.vectors(l, j);
    }
  }
  return multiply(transpose(a.vectors), scaled);
}

}  // namespace darkformer::estimators
