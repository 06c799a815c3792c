// Random covariances and Gaussian inputs, for tests and for `darkformer variance`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "darkformer/estimators/input_moments.h"

namespace darkformer::estimators {

// Where the numbers come from: a pure function of it.
struct RandomSource {
  std::uint64_t seed = 1;
  std::uint32_t stream = 0;
  std::uint32_t index = 0;
};

// (count,size), independent standard normals.
Matrix normal_matrix(std::size_t count, std::size_t size, const RandomSource& source);
// (size,size), Haar distributed.
Matrix random_rotation(std::size_t size, const RandomSource& source);
// Eigenvalues from small to large, a constant ratio between neighbours, the largest `condition`
// times the smallest, with this mean.
Vector geometric_spectrum(std::size_t size, double mean, double condition);
// rotation^T diag(values) rotation
Matrix covariance_with(std::span<const double> values, const Matrix& rotation);
// (count,D): rows distributed as N(mean, covariance), which may be singular.
Matrix gaussian_rows(std::size_t count,
                     std::span<const double> mean,
                     const Matrix& covariance,
                     const RandomSource& source);

}  // namespace darkformer::estimators
