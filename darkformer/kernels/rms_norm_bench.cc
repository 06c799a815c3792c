// RMSNorm beside a copy of the same bytes: it should be bound by memory, not by arithmetic.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/rms_norm.h"

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "darkformer/base/threads.h"

namespace darkformer::kernels {
namespace {

struct Inputs {
  RmsNormShape shape;
  std::vector<float> x, w, dy, y, dw;

  explicit Inputs(const benchmark::State& state)
      : shape{static_cast<std::size_t>(state.range(0)), static_cast<std::size_t>(state.range(1))},
        x(shape.rows * shape.E),
        w(shape.E, 0.1F),
        dy(x.size(), 0.5F),
        y(x.size()),
        dw(shape.E) {
    std::mt19937 generator(1);
    for (float& value : x) {
      value = static_cast<float>(generator()) * 0x1p-32F - 0.5F;
    }
    set_threads(static_cast<int>(state.range(2)));
  }
  bool is_right() const {
    std::vector<double> want(x.size());
    rms_norm_ref(shape, x.data(), w.data(), want.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (std::abs(y[i] - want[i]) > 1e-5 * (1.0 + std::abs(want[i]))) {
        return false;
      }
    }
    return true;
  }
  std::int64_t bytes(std::int64_t arrays) const {
    return arrays * static_cast<std::int64_t>(x.size() * sizeof(float));
  }
};

void copy(benchmark::State& state) {
  Inputs in(state);
  for ([[maybe_unused]] auto _ : state) {
    std::memcpy(in.y.data(), in.x.data(), in.x.size() * sizeof(float));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * in.bytes(2));
}

void rms_norm_forward(benchmark::State& state) {
  Inputs in(state);
  rms_norm(in.shape, in.x.data(), in.w.data(), in.y.data());
  if (!in.is_right()) {
    state.SkipWithError("rms_norm is wrong");
    return;
  }
  for ([[maybe_unused]] auto _ : state) {
    rms_norm(in.shape, in.x.data(), in.w.data(), in.y.data());
  }
  state.SetBytesProcessed(state.iterations() * in.bytes(2));
}

void rms_norm_gradients(benchmark::State& state) {
  Inputs in(state);
  for ([[maybe_unused]] auto _ : state) {
    rms_norm_backward(in.shape, in.x.data(), in.w.data(), in.dy.data(),
                      {in.y.data(), in.dw.data()});
  }
  state.SetBytesProcessed(state.iterations() * in.bytes(3));
}

void reference(benchmark::State& state) {
  Inputs in(state);
  std::vector<double> y(in.x.size());
  for ([[maybe_unused]] auto _ : state) {
    rms_norm_ref(in.shape, in.x.data(), in.w.data(), y.data());
  }
  state.SetBytesProcessed(state.iterations() * in.bytes(2));
}

// One decode token, a batch, and the rows of a QK-norm.
void shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"rows", "E", "threads"})
      ->Args({1, 2304, 1})
      ->Args({4096, 2304, 1})
      ->Args({4096, 2304, 2})
      ->Args({16384, 256, 1})
      ->UseRealTime();
}
BENCHMARK(copy)->Apply(shapes);
BENCHMARK(rms_norm_forward)->Apply(shapes);
BENCHMARK(rms_norm_gradients)->Apply(shapes);
BENCHMARK(reference)->Apply(shapes);

}  // namespace
}  // namespace darkformer::kernels

BENCHMARK_MAIN();
