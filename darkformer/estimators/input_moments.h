// Means and covariances of kernel inputs: all that the fitted estimators know of the data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "darkformer/estimators/matrix.h"

namespace darkformer::estimators {

// Queries and keys as the kernel exp(q . k) sees them: rotated, each times sqrt(scale). Independent
// of each other where a formula needs their sum.
struct InputMoments {
  Vector query_mean, key_mean;              // (D)
  Matrix query_covariance, key_covariance;  // (D,D)

  std::size_t dim() const { return query_mean.size(); }
};

// Mean zero and one covariance for both.
InputMoments zero_mean_moments(const Matrix& covariance);
// Of the rows of q and k (any number of them, D columns).
InputMoments moments_of(const Matrix& q, const Matrix& k);

// Error naming `where` and the offending value: sizes that differ, an entry that is not finite, a
// variance below zero.
void check_moments(const InputMoments& moments, const std::string& where);

// The same inputs after their means are subtracted, or after x -> map x.
InputMoments centred(const InputMoments& moments);
InputMoments mapped(const InputMoments& moments, const Matrix& query_map, const Matrix& key_map);

// E q q^T, E k k^T and E (q+k)(q+k)^T.
Matrix query_second_moment(const InputMoments& moments);
Matrix key_second_moment(const InputMoments& moments);
Matrix sum_second_moment(const InputMoments& moments);

// The eigenvectors of the `rank` largest eigenvalues as rows (R,D), smaller ones first.
Matrix leading_directions(const Spectrum& covariance, std::size_t rank);

// The least number of leading directions that hold `share` (0 to 1) of the sum of the eigenvalues,
// of which those below zero count as zero; at least one.
std::size_t leading_count(const Spectrum& covariance, double share);

// c (Lambda + ridge)^-1/2 on the `rank` leading directions (R,D): the symmetric root at full rank,
// so that the whitened space keeps the axes of the old one. The ridge is relative to the mean
// eigenvalue; directions below it are noise. Zero or smaller eigenvalues count as zero.
Matrix whitening(const Spectrum& covariance, std::size_t rank, double ridge, double c = 1.0);

}  // namespace darkformer::estimators
