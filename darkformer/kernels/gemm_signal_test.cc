// Products stay right while signals come: oneDNN alone does not stand them.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <vector>

#include "darkformer/base/threads.h"
#include "darkformer/kernels/gemm.h"

namespace darkformer::kernels::gemm_signal_test {
namespace {

std::atomic<int> signals{0};

// SIGALRM every 200 microseconds while it lives.
class SignalStorm {
 public:
  SignalStorm() {
    struct sigaction action {};
    action.sa_handler = [](int) { ++signals; };
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, &before_);
    set_interval(200);
  }
  ~SignalStorm() {
    set_interval(0);
    sigaction(SIGALRM, &before_, nullptr);
  }
  SignalStorm(const SignalStorm&) = delete;
  SignalStorm& operator=(const SignalStorm&) = delete;

 private:
  static void set_interval(int microseconds) {
    const itimerval timer{{0, microseconds}, {0, microseconds}};
    setitimer(ITIMER_REAL, &timer, nullptr);
  }
  struct sigaction before_ {};
};

void expect_right_product(std::size_t size, bool trans_a, bool trans_b) {
  const std::size_t k = size + 5;
  const std::vector<float> a(size * k, 0.5F), b(size * k, 0.25F);
  std::vector<float> c(size * size, 7.0F);
  Gemm g;
  g.m = size, g.n = size, g.k = k;
  g.trans_a = trans_a, g.trans_b = trans_b;
  g.a = a.data(), g.lda = trans_a ? size : k;
  g.b = b.data(), g.ldb = trans_b ? k : size;
  g.c = c.data(), g.ldc = size;
  gemm(g);
  // Sums of eighths: exact in float.
  const std::vector<float> want(size * size, 0.125F * static_cast<float>(k));
  ASSERT_EQ(c, want) << size << " " << trans_a << trans_b;
}

TEST(GemmSignals, ProductsStandAStormOfSignals) {
  const int before = threads();
  for (const int count : {1, 2, 4}) {
    set_threads(count);
    const SignalStorm storm;
    signals = 0;
    const auto start = std::chrono::steady_clock::now();
    const auto has_passed = [&](int seconds) {
      return std::chrono::steady_clock::now() - start > std::chrono::seconds(seconds);
    };
    while (!has_passed(1) || (signals <= 100 && !has_passed(60))) {  // a busy machine sends few
      for (const std::size_t size : {17, 64, 100, 192, 256}) {
        for (const int trans : {0, 1, 2, 3}) {
          ASSERT_NO_FATAL_FAILURE(expect_right_product(size, (trans & 1) != 0, (trans & 2) != 0));
        }
      }
    }
    EXPECT_GT(signals, 100);
  }
  set_threads(before);
}

}  // namespace
}  // namespace darkformer::kernels::gemm_signal_test
