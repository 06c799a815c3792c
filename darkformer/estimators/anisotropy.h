// How far from a sphere a cloud of vectors is: numbers of its mean and its spectrum.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "darkformer/estimators/matrix.h"

namespace darkformer::estimators {

struct Anisotropy {
  double mean_size = 0.0;       // |E x|
  double size = 0.0;            // sqrt(E |x|^2)
  Vector spectrum;              // of the covariance, falling
  double effective_rank = 0.0;  // exp of the entropy of the spectrum over its sum: 1 to D
  double condition = 0.0;  // the largest eigenvalue over the smallest; infinite where that is 0
};

// Eigenvalues below zero (rounding) count as zero. All zero: effective rank 0, condition infinite.
Anisotropy anisotropy(std::span<const double> mean, const Matrix& covariance);

}  // namespace darkformer::estimators
