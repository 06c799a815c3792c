// gemm equals its reference: sizes, transposes, leading dimensions, alpha, beta, batches, threads.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "darkformer/base/poisoned_buffer.h"
#include "darkformer/base/threads.h"
#include "darkformer/base/tolerance.h"
#include "darkformer/kernels/kernel_testing.h"

namespace darkformer::kernels::gemm_test {
namespace {

std::vector<float> absolute(std::vector<float> values) {
  for (float& value : values) {
    value = std::abs(value);
  }
  return values;
}

// Matrices for one shape, with rows `gap` longer than they need to be.
struct Problem {
  Gemm shape;
  std::vector<float> a, b, c;

  Problem(Gemm g, std::size_t gap) : shape(g) {
    shape.lda = (g.trans_a ? g.m : g.k) + gap;
    shape.ldb = (g.trans_b ? g.k : g.n) + gap;
    shape.ldc = g.n + gap;
    a = random_values((g.trans_a ? g.k : g.m) * shape.lda, 1);
    b = random_values((g.trans_b ? g.n : g.k) * shape.ldb, 2);
    c = random_values(g.m * shape.ldc, 3);
  }
  Gemm on(float* c_memory) const {
    Gemm g = shape;
    g.a = a.data();
    g.b = b.data();
    g.c = c_memory;
    return g;
  }
  // |alpha| |A| |B| + |beta| |C|: what the rounding errors are relative to.
  std::vector<float> magnitudes() const {
    Problem positive = *this;
    positive.a = absolute(a);
    positive.b = absolute(b);
    positive.shape.alpha = std::abs(shape.alpha);
    positive.shape.beta = std::abs(shape.beta);
    std::vector<float> result = absolute(c);
    gemm_ref(positive.on(result.data()));
    return result;
  }
};

void expect_equal(const Problem& problem, const float* got, const char* what) {
  std::vector<float> want = problem.c;
  gemm_ref(problem.on(want.data()));
  const std::vector<float> magnitude = problem.magnitudes();
  const Gemm& g = problem.shape;
  for (std::size_t i = 0; i < g.m; ++i) {
    for (std::size_t j = 0; j < g.ldc; ++j) {
      const std::size_t at = i * g.ldc + j;
      const double bound = j < g.n ? sum_bound(kEpsFloat, g.k, magnitude[at]) : 0.0;
      ASSERT_NEAR(got[at], want[at], bound)
          << what << " " << g.m << "x" << g.n << "x" << g.k << " trans " << g.trans_a << g.trans_b
          << " beta " << g.beta << " at " << i << "," << j;
    }
  }
}

void check(const Gemm& shape, std::size_t gap) {
  const Problem problem(shape, gap);
  PoisonedBuffer<float> c(problem.c.size());
  std::copy(problem.c.begin(), problem.c.end(), c.begin());
  gemm(problem.on(c.data()));
  expect_equal(problem, c.data(), "gemm");
  EXPECT_TRUE(c.guards_intact());
}

TEST(Gemm, EqualsReferenceForOddSizesAndTransposes) {
  set_threads(2);
  const std::size_t sizes[] = {1, 3, 16, 31, 65, 130};  // up to 128 the product may be our own
  on_every_target([&] {
    for (std::size_t i = 0; i < 864; ++i) {
      check({.m = sizes[i / 4 % 6],
             .n = sizes[i / 24 % 6],
             .k = sizes[i / 144],
             .trans_a = i % 2 == 1,
             .trans_b = i / 2 % 2 == 1},
            i % 4);
    }
  });
}

TEST(Gemm, EqualsReferenceForAlphaAndBeta) {
  on_every_target([] {
    for (const float alpha : {1.0F, -0.5F, 0.0F}) {
      for (const float beta : {0.0F, 1.0F, -2.0F}) {
        check({.m = 37, .n = 50, .k = 129, .alpha = alpha, .beta = beta}, 2);
        check({.m = 37, .n = 50, .k = 99, .alpha = alpha, .beta = beta}, 2);
        check({.m = 37, .n = 48, .k = 99, .alpha = alpha, .beta = beta}, 2);
      }
    }
  });
}

// As in BLAS: NaN in A and B does not reach C.
TEST(Gemm, AlphaZeroReadsNeitherAnorB) {
  for (const std::size_t k : {20U, 200U}) {
    Problem problem({.m = 17, .n = 33, .k = k, .alpha = 0.0F, .beta = 2.0F}, 0);
    std::fill(problem.a.begin(), problem.a.end(), std::nanf(""));
    std::vector<float> c = problem.c;
    gemm(problem.on(c.data()));
    for (std::size_t i = 0; i < c.size(); ++i) {
      ASSERT_EQ(c[i], 2.0F * problem.c[i]) << i;
    }
  }
}

TEST(Gemm, EqualsReferenceOnEveryThreadCount) {
  for (const int count : {1, 2, 3, 4}) {
    set_threads(count);
    check({.m = 257, .n = 130, .k = 300}, 0);
    check({.m = 1, .n = 1000, .k = 513, .trans_b = true}, 0);
  }
  set_threads(2);
}

TEST(Gemm, BetaZeroDoesNotReadC) {
  for (const std::size_t k : {0U, 1U, 40U}) {
    const Problem problem({.m = 17, .n = 33, .k = k}, 0);
    PoisonedBuffer<float> c(problem.c.size());
    gemm(problem.on(c.data()));
    EXPECT_TRUE(c.fully_written());
    expect_equal(problem, c.data(), "beta 0");
  }
}

TEST(Gemm, NoTermsScaleC) {
  check({.m = 5, .n = 7, .k = 0, .beta = 0.0F}, 3);
  check({.m = 5, .n = 7, .k = 0, .beta = -1.5F}, 3);
}

TEST(Gemm, EmptyResultsTouchNothing) {
  gemm({.m = 0, .n = 4, .k = 4, .lda = 4, .ldb = 4, .ldc = 4});
  gemm({.m = 4, .n = 0, .k = 4, .lda = 4, .ldb = 4, .ldc = 4});
  gemm({});
  gemm_batch({}, {});
}

// Both ways through gemm_batch, alone and from inside a parallel loop.
void check_batch(const Gemm& shape, std::size_t count, bool share_b) {
  const Problem one(shape, 1);
  const std::vector<float> a = random_values(one.a.size() * count, 4);
  const std::vector<float> b = random_values(one.b.size() * count, 5);
  PoisonedBuffer<float> c(one.c.size() * count);
  Gemm first = one.on(c.data());
  first.a = a.data();
  first.b = b.data();
  const std::size_t stride_b = share_b ? 0 : one.b.size();
  gemm_batch(first, {count, one.a.size(), stride_b, one.c.size()});
  for (std::size_t i = 0; i < count; ++i) {
    Problem single = one;
    single.a.assign(a.data() + i * one.a.size(), a.data() + (i + 1) * one.a.size());
    single.b.assign(b.data() + i * stride_b, b.data() + i * stride_b + one.b.size());
    std::fill(single.c.begin(), single.c.end(), std::nanf(""));
    for (std::size_t row = 0; row < shape.m; ++row) {  // the gap at the end of a row stays NaN
      float& gap = c[i * one.c.size() + row * one.shape.ldc + shape.n];
      EXPECT_TRUE(std::isnan(gap));
      gap = single.c[row * one.shape.ldc + shape.n] = 0.0F;
    }
    expect_equal(single, c.data() + i * one.c.size(), "batch");
  }
  EXPECT_TRUE(c.guards_intact());
}

TEST(Gemm, BatchEqualsSingleProducts) {
  for (const int count : {1, 2, 4}) {
    set_threads(count);
    check_batch({.m = 20, .n = 31, .k = 17}, 7, false);
    check_batch({.m = 20, .n = 31, .k = 17, .trans_a = true, .trans_b = true}, 7, true);
    check_batch({.m = 200, .n = 201, .k = 200}, 3, false);
  }
  set_threads(2);
}

TEST(Gemm, RunsInsideParallelLoops) {
  set_threads(2);
  std::vector<PoisonedBuffer<float>> results(4, PoisonedBuffer<float>(std::size_t{300} * 300));
  const Problem problem({.m = 300, .n = 300, .k = 300}, 0);
  parallel_for(results.size(), [&](std::size_t i) { gemm(problem.on(results[i].data())); });
  for (const auto& result : results) {
    expect_equal(problem, result.data(), "inside");
  }
}

}  // namespace
}  // namespace darkformer::kernels::gemm_test
