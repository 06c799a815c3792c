// matvec equals its reference for every stored type, and keeps its bits.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/matvec.h"

#include <algorithm>
#include <cstdint>

#include "darkformer/base/tolerance.h"
#include "darkformer/kernels/convert.h"
#include "darkformer/kernels/kernel_testing.h"

namespace darkformer::kernels::matvec_test {
namespace {

// A random matrix in its stored type, and the vectors it is multiplied by.
struct Problem {
  std::vector<std::uint32_t> memory;
  StoredMatrix weight;
  std::size_t vectors;
  std::vector<float> x;

  Problem(StoredType type, std::size_t out, std::size_t in, std::size_t count)
      : memory(out * in + 1),
        weight{memory.data(), type, out, in},
        vectors(count),
        x(random_values(vectors * in, 2)) {
    const std::vector<float> values = random_values(out * in, 1);
    convert_from_float(values.data(), type, values.size(), memory.data());
  }
  Problem(const Problem&) = delete;

  // sum_i |weight[o][i] x[n][i]|: what the rounding errors are relative to.
  double magnitude(std::size_t n, std::size_t o) const {
    double sum = 0.0;
    for (std::size_t i = 0; i < weight.cols; ++i) {
      sum += std::abs(static_cast<double>(stored_value(weight.row(o), weight.type, i)) *
                      x[n * weight.cols + i]);
    }
    return sum;
  }
};

void check(const Problem& problem) {
  const StoredMatrix& weight = problem.weight;
  PoisonedBuffer<float> y(problem.vectors * weight.rows);
  matvec(weight, problem.x.data(), problem.vectors, y.data());
  std::vector<double> want(y.size());
  matvec_ref(weight, problem.x.data(), problem.vectors, want.data());
  expect_near("y", y, want, [&](std::size_t i) {
    return sum_bound(kEpsFloat, weight.cols, problem.magnitude(i / weight.rows, i % weight.rows));
  });
}

void check_sizes(StoredType type) {
  for (const std::size_t out : {1, 2, 3, 5, 8}) {
    for (const std::size_t in : {1, 7, 15, 16, 17, 63, 64, 65, 200}) {
      for (const std::size_t vectors : {1, 2, 3, 4, 5, 8, 9, 15, 16}) {
        check(Problem(type, out, in, vectors));
      }
    }
  }
}

TEST(Matvec, EqualsReferenceForOddSizesOnEveryTarget) {
  on_every_target([] {
    check_sizes(StoredType::kFloat32);
    check_sizes(StoredType::kBfloat16);
    check_sizes(StoredType::kFloat16);
  });
}

TEST(Matvec, EqualsReferenceOnEveryThreadCount) {
  on_every_thread_count([] {
    for (const StoredType type : {StoredType::kFloat32, StoredType::kBfloat16}) {
      check(Problem(type, 301, 640, 2));
    }
  });
}

TEST(Matvec, ThreadsAndBatchDoNotChangeABit) {
  const Problem problem(StoredType::kBfloat16, 257, 650, kMatvecVectors);
  const StoredMatrix& weight = problem.weight;
  set_threads(1);
  std::vector<float> alone(kMatvecVectors * weight.rows);
  for (std::size_t n = 0; n < kMatvecVectors; ++n) {
    matvec(weight, problem.x.data() + n * weight.cols, 1, alone.data() + n * weight.rows);
  }
  on_every_thread_count([&] {
    for (const std::size_t vectors : {7U, 8U, 11U, 12U, 15U, 16U}) {
      std::vector<float> together(vectors * weight.rows);
      matvec(weight, problem.x.data(), vectors, together.data());
      EXPECT_TRUE(std::equal(together.begin(), together.end(), alone.begin())) << vectors;
    }
  });
}

}  // namespace
}  // namespace darkformer::kernels::matvec_test
