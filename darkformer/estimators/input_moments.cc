// Moments: checks, sums, maps.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/estimators/input_moments.h"

#include <algorithm>
#include <cmath>

#include "darkformer/base/error.h"

namespace darkformer::estimators {
namespace {

void check_finite(std::span<const double> values, const char* what, const std::string& where) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    require(std::isfinite(values[i]), where, ": the ", what, " has the entry ", values[i],
            " at position ", i);
  }
}

void check_side(const Vector& mean,
                const Matrix& covariance,
                std::size_t dim,
                const char* what,
                const std::string& where) {
  require(mean.size() == dim && covariance.rows() == dim && covariance.cols() == dim, where,
          ": mean and covariance of the ", what, " have the sizes ", mean.size(), " and ",
          covariance.rows(), " x ", covariance.cols(), "; wanted ", dim);
  check_finite(mean, concat("mean of the ", what).c_str(), where);
  check_finite(covariance.values(), concat("covariance of the ", what).c_str(), where);
  for (std::size_t i = 0; i < dim; ++i) {
    require(covariance(i, i) >= 0.0, where, ": the ", what, " have the variance ", covariance(i, i),
            " at position ", i);
  }
}

Vector mean_of(const Matrix& rows) {
  Vector mean(rows.cols(), 0.0);
  for (std::size_t i = 0; i < rows.rows(); ++i) {
    mean = add(mean, rows.row(i));
  }
  for (double& value : mean) {
    value /= static_cast<double>(rows.rows());
  }
  return mean;
}

Matrix covariance_of(const Matrix& rows, const Vector& mean) {
  Matrix centred_rows = rows;
  for (std::size_t i = 0; i < rows.rows(); ++i) {
    const Vector difference = add(rows.row(i), mean, -1.0);
    std::ranges::copy(difference, centred_rows.row(i).begin());
  }
  const Matrix columns = transpose(centred_rows);
  return scale(multiply_transposed(columns, columns), 1.0 / static_cast<double>(rows.rows()));
}

}  // namespace

InputMoments zero_mean_moments(const Matrix& covariance) {
  const Vector zero(covariance.rows(), 0.0);
  return {zero, zero, covariance, covariance};
}

InputMoments moments_of(const Matrix& q, const Matrix& k) {
  require(q.rows() > 0 && k.rows() > 0 && q.cols() == k.cols(), "moments of ", q.rows(), " x ",
          q.cols(), " queries and ", k.rows(), " x ", k.cols(), " keys");
  const Vector query_mean = mean_of(q), key_mean = mean_of(k);
  return {query_mean, key_mean, covariance_of(q, query_mean), covariance_of(k, key_mean)};
}

void check_moments(const InputMoments& moments, const std::string& where) {
  require(moments.dim() > 0, where, ": the moments have size 0");
  check_side(moments.query_mean, moments.query_covariance, moments.dim(), "queries", where);
  check_side(moments.key_mean, moments.key_covariance, moments.dim(), "keys", where);
}

InputMoments centred(const InputMoments& moments) {
  const Vector zero(moments.dim(), 0.0);
  return {zero, zero, moments.query_covariance, moments.key_covariance};
}

InputMoments mapped(const InputMoments& moments, const Matrix& query_map, const Matrix& key_map) {
  const auto covariance = [](const Matrix& map, const Matrix& inputs) {
    return multiply_transposed(multiply(map, inputs), map);
  };
  return {multiply(query_map, moments.query_mean), multiply(key_map, moments.key_mean),
          covariance(query_map, moments.query_covariance),
          covariance(key_map, moments.key_covariance)};
}

Matrix query_second_moment(const InputMoments& m) {
  return add(m.query_covariance, outer(m.query_mean, m.query_mean));
}

Matrix key_second_moment(const InputMoments& m) {
  return add(m.key_covariance, outer(m.key_mean, m.key_mean));
}

Matrix sum_second_moment(const InputMoments& m) {
  const Vector mean = add(m.query_mean, m.key_mean);
  return add(add(m.query_covariance, m.key_covariance), outer(mean, mean));
}

Matrix leading_directions(const Spectrum& covariance, std::size_t rank) {
  const std::size_t D = covariance.size();
  require(rank >= 1 && rank <= D, "the leading ", rank, " directions of ", D);
  Matrix rows(rank, D);
  for (std::size_t r = 0; r < rank; ++r) {
    for (std::size_t j = 0; j < D; ++j) {
      rows(r, j) = covariance.vectors(D - rank + r, j);
    }
  }
  return rows;
}

std::size_t leading_count(const Spectrum& covariance, double share) {
  double total = 0.0;
  for (const double value : covariance.values) {
    total += std::max(value, 0.0);
  }
  const std::size_t D = covariance.size();
  double held = 0.0;
  for (std::size_t count = 1; count < D; ++count) {
    held += std::max(covariance.values[D - count], 0.0);
    if (held >= share * total) {
      return count;
    }
  }
  return D;
}

Matrix whitening(const Spectrum& covariance, std::size_t rank, double ridge, double c) {
  const std::size_t D = covariance.size();
  require(rank >= 1 && rank <= D, "whitening to rank ", rank, "; wanted 1 to ", D);
  double mean = 0.0;
  for (const double value : covariance.values) {
    mean += std::max(value, 0.0) / static_cast<double>(D);
  }
  require(mean > 0.0, "whitening: the covariance is zero");
  const auto inverse_root = [&](double value) {
    return c / std::sqrt(std::max(value, 0.0) + ridge * mean);
  };
  require(ridge > 0.0 || covariance.values[D - rank] > 0.0,
          "whitening without a ridge: the covariance has the eigenvalue ",
          covariance.values[D - rank]);
  if (rank == D) {
    return matrix_function(covariance, inverse_root);
  }
  Matrix map = leading_directions(covariance, rank);
  for (std::size_t r = 0; r < rank; ++r) {
    for (std::size_t j = 0; j < D; ++j) {
      map(r, j) *= inverse_root(covariance.values[D - rank + r]);
    }
  }
  return map;
}

}  // namespace darkformer::estimators
