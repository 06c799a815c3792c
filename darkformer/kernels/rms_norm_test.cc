// rms_norm equals its reference: y, dx and dw by name, odd sizes, threads, instruction sets.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/rms_norm.h"

#include "darkformer/base/tolerance.h"
#include "darkformer/kernels/kernel_testing.h"

namespace darkformer::kernels::rms_norm_test {
namespace {

struct Problem {
  RmsNormShape shape;
  std::vector<float> x, w, dy;
  std::vector<double> y, dx, dw;  // the reference

  Problem(std::size_t rows, std::size_t E, float scale = 1.0F, float unit = 1.0F)
      : shape{.rows = rows, .E = E, .unit = unit},
        x(random_values(rows * E, 1, scale)),
        w(random_values(E, 2, 0.3F)),
        dy(random_values(rows * E, 3)),
        y(rows * E),
        dx(rows * E),
        dw(E) {
    rms_norm_ref(shape, x.data(), w.data(), y.data());
    rms_norm_backward_ref(shape, x.data(), w.data(), dy.data(), dx.data(), dw.data());
  }
  // 1 / rms of a row, from the reference's own output where it can, else directly.
  double r(std::size_t row) const {
    double squares = 0.0;
    for (std::size_t e = 0; e < shape.E; ++e) {
      const double value = x[row * shape.E + e];
      squares += value * value;
    }
    return 1.0 / std::sqrt(squares / static_cast<double>(shape.E) + shape.epsilon);
  }
  // r is a sum of positive terms: relative error sum_bound(eps, E, 1), halved by the root.
  double y_bound(std::size_t i) const {
    return sum_bound(kEpsFloat, shape.E, std::abs(y[i])) + 1e-37;
  }
  // Both terms of dx count in full: |r g| + |x| r^3 mean |g x|.
  double dx_bound(std::size_t i) const {
    const std::size_t row = i / shape.E, e = i % shape.E;
    double inner = 0.0;
    for (std::size_t f = 0; f < shape.E; ++f) {
      const std::size_t at = row * shape.E + f;
      inner +=
          std::abs(static_cast<double>(dy[at]) * (shape.unit + static_cast<double>(w[f])) * x[at]) /
          static_cast<double>(shape.E);
    }
    const double s = r(row);
    const double magnitude = s * std::abs(dy[i] * (shape.unit + static_cast<double>(w[e]))) +
                             std::abs(x[i]) * s * s * s * inner;
    return sum_bound(kEpsFloat, shape.E, 3.0 * magnitude);
  }
  double dw_bound(std::size_t e) const {
    double magnitude = 0.0;
    for (std::size_t row = 0; row < shape.rows; ++row) {
      const std::size_t at = row * shape.E + e;
      magnitude += std::abs(static_cast<double>(dy[at]) * x[at]) * r(row);
    }
    return sum_bound(kEpsFloat, shape.rows + shape.E, magnitude);
  }
};

void check(const Problem& p) {
  SCOPED_TRACE(::testing::Message() << "rows " << p.shape.rows << " E " << p.shape.E);
  PoisonedBuffer<float> y(p.x.size()), dx(p.x.size()), dw(p.shape.E);
  rms_norm(p.shape, p.x.data(), p.w.data(), y.data());
  rms_norm_backward(p.shape, p.x.data(), p.w.data(), p.dy.data(), {dx.data(), dw.data()});
  expect_near("y", y, p.y, [&](std::size_t i) { return p.y_bound(i); });
  expect_near("dx", dx, p.dx, [&](std::size_t i) { return p.dx_bound(i); });
  expect_near("dw", dw, p.dw, [&](std::size_t e) { return p.dw_bound(e); });
}

TEST(RmsNorm, EqualsReferenceForOddSizesOnEveryTarget) {
  on_every_target([] {
    for (const std::size_t rows : {1, 2, 15, 16, 17}) {
      for (const std::size_t E : {1, 3, 15, 16, 17, 63, 64, 65, 130}) {
        check(Problem(rows, E));
        check(Problem(rows, E, 1.0F, 0.0F));
      }
    }
  });
}

TEST(RmsNorm, EqualsReferenceForTinyAndHugeInputs) {
  check(Problem(3, 67, 1e-5F));  // epsilon dominates
  check(Problem(3, 67, 1e-18F));
  check(Problem(3, 67, 1e15F));
}

TEST(RmsNorm, EqualsReferenceOnEveryThreadCount) {
  const Problem problem(211, 120);
  on_every_thread_count([&] { check(problem); });
}

TEST(RmsNorm, ThreadsDoNotChangeABit) {
  const Problem p(1500, 24);
  std::vector<std::vector<float>> all;
  on_every_thread_count([&] {
    std::vector<float> dx(p.x.size()), dw(p.shape.E);
    rms_norm_backward(p.shape, p.x.data(), p.w.data(), p.dy.data(), {dx.data(), dw.data()});
    dx.insert(dx.end(), dw.begin(), dw.end());
    all.push_back(dx);
  });
  for (const auto& result : all) {
    EXPECT_EQ(result, all.front());
  }
}

TEST(RmsNorm, WorksInPlaceAndWithoutAGradient) {
  const Problem p(9, 35);
  PoisonedBuffer<float> y(p.x.size()), dx(p.x.size()), dw(p.shape.E);
  std::copy(p.x.begin(), p.x.end(), y.begin());
  rms_norm(p.shape, y.data(), p.w.data(), y.data());
  expect_near("y in place", y, p.y, [&](std::size_t i) { return p.y_bound(i); });
  std::copy(p.dy.begin(), p.dy.end(), dx.begin());
  rms_norm_backward(p.shape, p.x.data(), p.w.data(), dx.data(), {dx.data(), nullptr});
  expect_near("dx over dy", dx, p.dx, [&](std::size_t i) { return p.dx_bound(i); });
  std::copy(p.x.begin(), p.x.end(), dx.begin());
  rms_norm_backward(p.shape, dx.data(), p.w.data(), p.dy.data(), {dx.data(), dw.data()});
  expect_near("dx over x", dx, p.dx, [&](std::size_t i) { return p.dx_bound(i); });
  expect_near("dw beside dx over x", dw, p.dw, [&](std::size_t e) { return p.dw_bound(e); });
}

TEST(RmsNorm, ZeroRowsAndZeroInputs) {
  const Problem p(0, 5);
  PoisonedBuffer<float> dw(5);
  rms_norm_backward(p.shape, nullptr, p.w.data(), nullptr, {nullptr, dw.data()});
  expect_near("dw of no rows", dw, std::vector<double>(5, 0.0), [](std::size_t) { return 0.0; });
  const std::vector<float> x(10, 0.0F);
  PoisonedBuffer<float> y(10);
  rms_norm({2, 5}, x.data(), p.w.data(), y.data());
  expect_near("y of zeros", y, std::vector<double>(10, 0.0), [](std::size_t) { return 0.0; });
}

}  // namespace
}  // namespace darkformer::kernels::rms_norm_test
