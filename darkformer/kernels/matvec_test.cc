// matvec equals its reference for every stored type, and keeps its bits.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/matvec.h"

#include <cstdint>

#include "darkformer/base/tolerance.h"
#include "darkformer/kernels/convert.h"
#include "darkformer/kernels/kernel_testing.h"

namespace darkformer::kernels {
namespace {

// A random matrix in its stored type, and x for N vectors.
struct Problem {
  std::vector<std::uint32_t> memory;
  StoredMatrix W;
  std::size_t N;
  std::vector<float> x;

  Problem(StoredType type, std::size_t out, std::size_t in, std::size_t vectors)
      : memory(out * in + 1),
        W{memory.data(), type, out, in},
        N(vectors),
        x(random_values(N * in, 2)) {
    const std::vector<float> values = random_values(out * in, 1);
    convert_from_float(values.data(), type, values.size(), memory.data());
  }
  Problem(const Problem&) = delete;

  // sum_i |W[o][i] x[n][i]|: what the rounding errors are relative to.
  double magnitude(std::size_t n, std::size_t o) const {
    double sum = 0.0;
    for (std::size_t i = 0; i < W.cols; ++i) {
      sum += std::abs(static_cast<double>(stored_value(W.row(o), W.type, i)) * x[n * W.cols + i]);
    }
    return sum;
  }
};

void check(const Problem& problem) {
  const StoredMatrix& W = problem.W;
  PoisonedBuffer<float> y(problem.N * W.rows);
  matvec(W, problem.x.data(), problem.N, y.data());
  std::vector<double> want(y.size());
  matvec_ref(W, problem.x.data(), problem.N, want.data());
  expect_near("y", y, want, [&](std::size_t i) {
    return sum_bound(kEpsFloat, W.cols, problem.magnitude(i / W.rows, i % W.rows));
  });
}

TEST(Matvec, EqualsReferenceForOddSizesOnEveryTarget) {
  on_every_target([] {
    for (const StoredType type :
         {StoredType::kFloat32, StoredType::kBfloat16, StoredType::kFloat16}) {
      for (const std::size_t out : {1, 2, 5}) {
        for (const std::size_t in : {1, 7, 15, 16, 17, 63, 64, 65, 200}) {
          for (const std::size_t N : {1, 2, 3, 4, 5, 8, 9}) {
            check(Problem(type, out, in, N));
          }
        }
      }
    }
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
  const Problem problem(StoredType::kBfloat16, 257, 650, 7);
  const StoredMatrix& W = problem.W;
  set_threads(1);
  std::vector<float> alone(7 * W.rows), together(alone.size());
  for (std::size_t n = 0; n < 7; ++n) {
    matvec(W, problem.x.data() + n * W.cols, 1, alone.data() + n * W.rows);
  }
  on_every_thread_count([&] {
    matvec(W, problem.x.data(), 7, together.data());
    EXPECT_EQ(alone, together);
  });
}

}  // namespace
}  // namespace darkformer::kernels
