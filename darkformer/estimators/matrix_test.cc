// Products against their definition; spectra put together again.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/estimators/matrix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "darkformer/base/error.h"
#include "darkformer/base/philox.h"

namespace darkformer::estimators::matrix_test {
namespace {

constexpr double kEps = std::numeric_limits<double>::epsilon();

Matrix normal_matrix(std::size_t rows, std::size_t cols, std::uint32_t stream) {
  Matrix a(rows, cols);
  Philox(7, stream).fill_normal(a.values());
  return a;
}

double distance(const Matrix& a, const Matrix& b) {
  return largest(add(a, b, -1.0));
}

// Is the spectrum that of a: orthonormal rows, ascending values, and a again as their sum?
void expect_spectrum(const Matrix& a) {
  const Spectrum s = symmetric_spectrum(a);
  const double n = static_cast<double>(a.rows()), bound = 20.0 * n * kEps;
  EXPECT_LT(distance(multiply_transposed(s.vectors, s.vectors), Matrix::identity(a.rows())), bound);
  EXPECT_LE(distance(matrix_function(s, [](double x) { return x; }), a), bound * largest(a));
  EXPECT_TRUE(std::is_sorted(s.values.begin(), s.values.end()));
}

TEST(Matrix, ProductsEqualTheirDefinition) {
  const Matrix a = normal_matrix(3, 4, 0), b = normal_matrix(4, 2, 1);
  const Matrix c = multiply(a, b);
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 2; ++j) {
      double sum = 0.0;
      for (std::size_t k = 0; k < 4; ++k) {
        sum += a(i, k) * b(k, j);
      }
      EXPECT_NEAR(c(i, j), sum, 1e-14);
    }
  }
  EXPECT_LT(distance(multiply_transposed(a, transpose(b)), c), 1e-14);
  EXPECT_EQ(trace(Matrix::diagonal(Vector{1.0, 2.0, 4.0})), 7.0);
}

TEST(Matrix, SpectrumOfRandomMatrices) {
  for (const std::size_t n : {1U, 2U, 3U, 7U, 32U, 65U}) {
    const Matrix x = normal_matrix(n, n, static_cast<std::uint32_t>(n));
    expect_spectrum(add(x, transpose(x)));
    expect_spectrum(multiply_transposed(x, x));
  }
}

TEST(Matrix, SpectrumOfSingularAndRepeatedMatrices) {
  expect_spectrum(Matrix(5, 5));
  expect_spectrum(Matrix::identity(6));
  const Matrix x = normal_matrix(9, 2, 3);
  expect_spectrum(multiply_transposed(x, x));  // rank 2
  expect_spectrum(Matrix::diagonal(Vector{1e-300, 1.0, 1e-20, 1.0, 0.0}));
  const Spectrum s = symmetric_spectrum(Matrix::diagonal(Vector{3.0, 1.0, 2.0}));
  EXPECT_EQ(s.values, (Vector{1.0, 2.0, 3.0}));
}

TEST(Matrix, SpectrumRefusesWhatIsNotFinite) {
  Matrix a = Matrix::identity(3);
  a(1, 1) = std::nan("");
  EXPECT_THROW(symmetric_spectrum(a), Error);
}

}  // namespace
}  // namespace darkformer::estimators::matrix_test
