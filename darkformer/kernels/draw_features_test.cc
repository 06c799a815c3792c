// Draws: orthogonal in blocks, normal in each row, unbiased, and a function of their numbers only.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/draw_features.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "darkformer/base/threads.h"

namespace darkformer::kernels::draw_features_test {
namespace {

std::vector<float> draw(const DrawShape& shape) {
  std::vector<float> draws(shape.groups * shape.features * shape.rank);
  draw_features(shape, draws.data());
  return draws;
}

TEST(DrawFeatures, SameNumbersSameDraws) {
  const DrawShape shape = {2, 20, 8, 7, 3, 1, true};
  set_threads(1);
  const std::vector<float> first = draw(shape);
  set_threads(3);
  EXPECT_EQ(first, draw(shape));
  DrawShape other = shape;
  other.index = 2;
  EXPECT_NE(first, draw(other));
  other = shape;
  other.stream = 4;
  EXPECT_NE(first, draw(other));
  other = shape;
  other.seed = 8;
  EXPECT_NE(first, draw(other));
}

TEST(DrawFeatures, BlocksAreOrthogonal) {
  const std::size_t F = 21, R = 8;
  const std::vector<float> draws = draw({3, F, R, 1, 0, 0, true});
  for (std::size_t n = 0; n < 3; ++n) {
    for (std::size_t i = 0; i < F; ++i) {
      for (std::size_t j = i / R * R; j < i; ++j) {
        double dot = 0.0;
        for (std::size_t r = 0; r < R; ++r) {
          dot += static_cast<double>(draws[(n * F + i) * R + r]) * draws[(n * F + j) * R + r];
        }
        EXPECT_NEAR(dot, 0.0, 1e-5);
      }
    }
  }
}

// Mean 0, variance 1, and E|w|^2 = R for single rows, at five standard errors (false alarm 6e-7
// each).
TEST(DrawFeatures, RowsAreStandardNormal) {
  for (const bool orthogonal : {false, true}) {
    const std::size_t F = 8, R = 8, groups = 4000;
    const std::vector<float> draws = draw({groups, F, R, 11, 0, 0, orthogonal});
    for (std::size_t r = 0; r < R; ++r) {
      double sum = 0.0, squares = 0.0, fourth = 0.0;
      for (std::size_t n = 0; n < groups;
           ++n) {  // the first row of each block: independent of the others
        const double x = draws[n * F * R + r];
        sum += x;
        squares += x * x;
        fourth += x * x * x * x;
      }
      const auto count = static_cast<double>(groups);
      EXPECT_NEAR(sum / count, 0.0, 5.0 / std::sqrt(count));
      EXPECT_NEAR(squares / count, 1.0, 5.0 * std::sqrt(2.0 / count));
      EXPECT_NEAR(fourth / count, 3.0, 5.0 * std::sqrt(96.0 / count));
    }
  }
}

// E exp(w.x - |x|^2/2) exp(w.y - |y|^2/2) = exp(x.y): the sign fix matters here (without it the
// estimate is off by several per cent at R = 8).
TEST(DrawFeatures, TheKernelEstimateIsUnbiased) {
  const std::size_t F = 8, R = 8, groups = 40000;
  const std::vector<float> draws = draw({groups, F, R, 5, 0, 0, true});
  const double x[8] = {0.4, -0.3, 0.2, 0.1, 0.0, 0.3, -0.2, 0.1},
               y[8] = {0.3, 0.2, -0.4, 0.1, 0.2, 0.1, 0.0, -0.3};
  double norm = 0.0, along = 0.0;
  for (std::size_t r = 0; r < R; ++r) {
    norm += 0.5 * (x[r] * x[r] + y[r] * y[r]);
    along += x[r] * y[r];
  }
  double sum = 0.0, squares = 0.0;
  for (std::size_t n = 0; n < groups; ++n) {
    double estimate = 0.0;
    for (std::size_t f = 0; f < F; ++f) {
      double dot = 0.0;
      for (std::size_t r = 0; r < R; ++r) {
        dot += draws[(n * F + f) * R + r] * (x[r] + y[r]);
      }
      estimate += std::exp(dot - norm) / F;
    }
    sum += estimate;
    squares += estimate * estimate;
  }
  const auto count = static_cast<double>(groups);
  const double mean = sum / count, deviation = std::sqrt(squares / count - mean * mean);
  EXPECT_NEAR(mean, std::exp(along), 5.0 * deviation / std::sqrt(count));
}

}  // namespace
}  // namespace darkformer::kernels::draw_features_test
