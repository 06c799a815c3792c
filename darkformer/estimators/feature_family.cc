// Features, estimates and attention of a family, in logarithms.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/estimators/feature_family.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "darkformer/base/error.h"
#include "darkformer/kernels/draw_features.h"

namespace darkformer::estimators {
namespace {

// exp(values - their maximum) / sum, in place; `values` are logarithms.
void normalise_exponents(std::span<double> values) {
  const double most = *std::max_element(values.begin(), values.end());
  double sum = 0.0;
  for (double& value : values) {
    value = std::exp(value - most);
    sum += value;
  }
  for (double& value : values) {
    value /= sum;
  }
}

double log_sum_exp(std::span<const double> values) {
  const double most = *std::max_element(values.begin(), values.end());
  double sum = 0.0;
  for (const double value : values) {
    sum += std::exp(value - most);
  }
  return most + std::log(sum);
}

// Positive features of all rows (rows,F), as logarithms.
template <class Features>
Matrix feature_rows(const Matrix& x, std::size_t features, const Features& of) {
  Matrix rows(x.rows(), features);
  for (std::size_t i = 0; i < x.rows(); ++i) {
    std::ranges::copy(of(x.row(i)), rows.row(i).begin());
  }
  return rows;
}

Vector log_features(const FeatureDraws& draws, const Vector& u, double beyond) {
  Vector logs(draws.features());
  const double common = beyond - 0.5 * squared_norm(u);
  for (std::size_t j = 0; j < logs.size(); ++j) {
    logs[j] = dot(draws.omega.row(j), u) + 0.5 * draws.log_weights[j] + common;
  }
  return logs;
}

// Estimates have signs here, and their sum may come out at or below zero.
void trigonometric_row(const FeatureFamily& family,
                       const FeatureDraws& draws,
                       std::span<const double> q,
                       const Matrix& k,
                       std::span<double> row) {
  Vector logs(k.rows());
  for (std::size_t s = 0; s < k.rows(); ++s) {
    logs[s] = log_kernel(family, q, k.row(s));
  }
  const double most = *std::max_element(logs.begin(), logs.end());
  double sum = 0.0;
  for (std::size_t s = 0; s < k.rows(); ++s) {
    row[s] = std::exp(logs[s] - most) * relative_estimate(family, draws, q, k.row(s));
    sum += row[s];
  }
  for (double& value : row) {
    value /= sum;
  }
}

}  // namespace

FeatureFamily plain_family(std::string name, std::size_t dim) {
  require(dim > 0, name, ": inputs of size 0");
  const Matrix identity = Matrix::identity(dim);
  const Vector zero(dim, 0.0), ones(dim, 1.0);
  return {std::move(name), identity, identity, zero, zero, {ones, identity}};
}

Matrix white_draws(std::size_t features,
                   std::size_t rank,
                   bool orthogonal,
                   std::uint64_t seed,
                   std::uint32_t stream,
                   std::uint32_t index) {
  require(features > 0 && rank > 0, "draws: ", features, " features of rank ", rank,
          "; wanted at least 1 of each");
  std::vector<float> values(features * rank);
  kernels::draw_features({1, features, rank, seed, stream, index, orthogonal}, values.data());
  Matrix white(features, rank);
  std::copy(values.begin(), values.end(), white.values().begin());
  return white;
}

FeatureDraws propose(const FeatureFamily& family, const Matrix& white) {
  assert(white.cols() == family.rank());
  const Matrix root = matrix_function(family.proposal, [](double s) { return std::sqrt(s); });
  // omega <- w P^1/2, whose root is symmetric
  FeatureDraws draws{multiply(white, root), Vector(white.rows())};
  const double half_log_det = 0.5 * log_det(family.proposal);
  for (std::size_t j = 0; j < white.rows(); ++j) {
    draws.log_weights[j] =
        half_log_det + 0.5 * squared_norm(white.row(j)) - 0.5 * squared_norm(draws.omega.row(j));
  }
  return draws;
}

FeatureDraws draw(const FeatureFamily& family,
                  std::size_t features,
                  std::uint64_t seed,
                  std::uint32_t stream,
                  std::uint32_t index) {
  return propose(family,
                 white_draws(features, family.rank(), family.orthogonal, seed, stream, index));
}

Vector map_query(const FeatureFamily& family, std::span<const double> q) {
  return multiply(family.query_map, add(q, family.query_center, -1.0));
}

Vector map_key(const FeatureFamily& family, std::span<const double> k) {
  return multiply(family.key_map, add(k, family.key_center, -1.0));
}

double log_kernel(const FeatureFamily& family,
                  std::span<const double> q,
                  std::span<const double> k) {
  // u_q + m = Mq q
  return dot(multiply(family.query_map, q), map_key(family, k));
}

Vector log_query_features(const FeatureFamily& family,
                          const FeatureDraws& draws,
                          std::span<const double> q) {
  assert(!family.trigonometric);
  return log_features(draws, map_query(family, q), 0.0);
}

Vector log_key_features(const FeatureFamily& family,
                        const FeatureDraws& draws,
                        std::span<const double> k) {
  assert(!family.trigonometric);
  const Vector u = map_key(family, k);
  return log_features(draws, u, dot(multiply(family.query_map, family.query_center), u));
}

Vector relative_terms(const FeatureFamily& family,
                      const FeatureDraws& draws,
                      std::span<const double> q,
                      std::span<const double> k) {
  const Vector u_q = map_query(family, q), u_k = map_key(family, k);
  const Vector z = add(u_q, u_k, family.trigonometric ? -1.0 : 1.0);
  const double half = 0.5 * squared_norm(z);
  Vector terms(draws.features());
  for (std::size_t j = 0; j < terms.size(); ++j) {
    const double along = dot(draws.omega.row(j), z);
    terms[j] = family.trigonometric ? std::cos(along) * std::exp(half)
                                    : std::exp(along - half + draws.log_weights[j]);
  }
  return terms;
}

double relative_estimate(const FeatureFamily& family,
                         const FeatureDraws& draws,
                         std::span<const double> q,
                         std::span<const double> k) {
  double sum = 0.0;
  for (const double term : relative_terms(family, draws, q, k)) {
    sum += term;
  }
  return sum / static_cast<double>(draws.features());
}

double estimate(const FeatureFamily& family,
                const FeatureDraws& draws,
                std::span<const double> q,
                std::span<const double> k) {
  return std::exp(log_kernel(family, q, k)) * relative_estimate(family, draws, q, k);
}

Matrix attention_estimate(const FeatureFamily& family,
                          const FeatureDraws& draws,
                          const Matrix& q,
                          const Matrix& k) {
  Matrix attention(q.rows(), k.rows());
  if (family.trigonometric) {
    for (std::size_t t = 0; t < q.rows(); ++t) {
      trigonometric_row(family, draws, q.row(t), k, attention.row(t));
    }
    return attention;
  }
  const std::size_t F = draws.features();
  const Matrix keys = feature_rows(
      k, F, [&](std::span<const double> x) { return log_key_features(family, draws, x); });
  for (std::size_t t = 0; t < q.rows(); ++t) {
    const Vector query = log_query_features(family, draws, q.row(t));
    for (std::size_t s = 0; s < k.rows(); ++s) {
      attention(t, s) = log_sum_exp(add(query, keys.row(s)));
    }
    normalise_exponents(attention.row(t));
  }
  return attention;
}

Matrix exact_attention_of(const FeatureFamily& family, const Matrix& q, const Matrix& k) {
  Matrix attention(q.rows(), k.rows());
  for (std::size_t t = 0; t < q.rows(); ++t) {
    for (std::size_t s = 0; s < k.rows(); ++s) {
      attention(t, s) = log_kernel(family, q.row(t), k.row(s));
    }
    normalise_exponents(attention.row(t));
  }
  return attention;
}

double effective_sample_size(std::span<const double> terms) {
  double sum = 0.0;
  for (const double term : terms) {
    sum += term;
  }
  const double squares = squared_norm(terms);
  return squares > 0.0 ? sum * sum / squares : 0.0;
}

}  // namespace darkformer::estimators
