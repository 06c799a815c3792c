// Spheres, lines, and spectra between them.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/estimators/anisotropy.h"

#include <gtest/gtest.h>

#include <cmath>

#include "darkformer/estimators/random_inputs.h"

namespace darkformer::estimators::anisotropy_test {
namespace {

TEST(Anisotropy, OfASphereAndOfALine) {
  const Anisotropy sphere = anisotropy(Vector{3.0, 0.0, 4.0}, scale(Matrix::identity(3), 2.0));
  EXPECT_DOUBLE_EQ(sphere.mean_size, 5.0);
  EXPECT_NEAR(sphere.size, std::sqrt(25.0 + 6.0), 1e-12);
  EXPECT_NEAR(sphere.effective_rank, 3.0, 1e-12);
  EXPECT_NEAR(sphere.condition, 1.0, 1e-12);
  const Anisotropy line = anisotropy(Vector(3, 0.0), Matrix::diagonal(Vector{0.0, 5.0, 0.0}));
  EXPECT_NEAR(line.effective_rank, 1.0, 1e-12);
  EXPECT_TRUE(std::isinf(line.condition));
  EXPECT_EQ(line.spectrum, (Vector{5.0, 0.0, 0.0}));
  EXPECT_EQ(anisotropy(Vector(2, 0.0), Matrix(2, 2)).effective_rank, 0.0);
}

TEST(Anisotropy, DoesNotDependOnTheAxes) {
  const Vector values = geometric_spectrum(6, 0.5, 40.0);
  const Matrix turned = covariance_with(values, random_rotation(6, {.seed = 3}));
  const Anisotropy found = anisotropy(Vector(6, 0.0), turned);
  EXPECT_NEAR(found.condition, 40.0, 1e-9);
  double entropy = 0.0;
  for (const double value : values) {
    entropy -= value / 3.0 * std::log(value / 3.0);  // their sum is 6 * 0.5
  }
  EXPECT_NEAR(found.effective_rank, std::exp(entropy), 1e-9);
  for (std::size_t l = 0; l < 6; ++l) {
    EXPECT_NEAR(found.spectrum[l], values[5 - l], 1e-12);
  }
}

}  // namespace
}  // namespace darkformer::estimators::anisotropy_test
