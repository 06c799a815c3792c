// What the benchmarks of attention measure with: medians of CPU time, beside one dnnl_sgemm 256^3.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ctime>

#include <algorithm>
#include <vector>

#include "darkformer/kernels/gemm.h"

namespace darkformer::kernels {

// CPU time of the whole process: the machines that run benchmarks are shared.
inline double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <class Call>
double seconds_of(const Call& call) {
  const double begin = cpu_seconds();
  call();
  return cpu_seconds() - begin;
}

inline double median(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

// Products of 256 x 256 matrices, measured between the samples of a benchmark.
class Yardstick {
  static constexpr std::size_t kSize = 256;
  static constexpr int kRepeats = 8;
  static constexpr std::size_t kFewest = 11;

 public:
  static constexpr double kGflop = 2e-9 * kRepeats * kSize * kSize * kSize;

  // The first calls make the code of the product and would count as its speed.
  Yardstick() : a_(kSize * kSize, 0.5F), b_(kSize * kSize, 0.25F), c_(kSize * kSize) { run(); }

  // Some products, of kGflop together.
  void run() {
    for (int i = 0; i < kRepeats; ++i) {
      gemm({.m = kSize,
            .n = kSize,
            .k = kSize,
            .a = a_.data(),
            .lda = kSize,
            .b = b_.data(),
            .ldb = kSize,
            .c = c_.data(),
            .ldc = kSize});
    }
  }
  void sample() {
    times_.push_back(seconds_of([&] { run(); }));
  }
  // A long benchmark may have run once or twice: never fewer samples than kFewest.
  double gflops() {
    while (times_.size() < kFewest) {
      sample();
    }
    return kGflop / median(times_);
  }

 private:
  std::vector<float> a_, b_, c_;
  std::vector<double> times_;
};

}  // namespace darkformer::kernels
