// gemm beside raw dnnl_sgemm, call by call in one run: the door must cost nothing.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/gemm.h"

#include <benchmark/benchmark.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "darkformer/base/threads.h"
#include "darkformer/base/tolerance.h"
#include "darkformer/kernels/cpu_features.h"

namespace darkformer::kernels {
namespace {

// Values in (-1, 1) without a generator's cost.
std::vector<float> waves(std::size_t count, float frequency) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = std::sin(frequency * static_cast<float>(i % 65521));
  }
  return values;
}

struct Square {
  std::size_t size;
  std::vector<float> a = waves(size * size, 0.7F);
  std::vector<float> b = waves(size * size, 1.3F);
  std::vector<float> c = std::vector<float>(size * size);

  Gemm product() {
    return {.m = size,
            .n = size,
            .k = size,
            .a = a.data(),
            .lda = size,
            .b = b.data(),
            .ldb = size,
            .c = c.data(),
            .ldc = size};
  }
  // One column of C against the reference.
  bool answer_is_right() {
    gemm(product());
    std::vector<float> column(size);
    Gemm one = product();
    one.n = 1;
    one.c = column.data();
    one.ldc = 1;
    gemm_ref(one);
    const double bound = sum_bound(kEpsFloat, size, static_cast<double>(size));
    for (std::size_t i = 0; i < size; ++i) {
      if (!(std::abs(column[i] - c[i * size]) <= bound)) {
        return false;
      }
    }
    return true;
  }
};

double seconds_of(const auto& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Small products are repeated so that one sample is long enough for the clock.
std::size_t repeats(std::size_t size) {
  return std::max<std::size_t>(1, (256 * 256 * 256) / (size * size * size));
}

void gemm_square(benchmark::State& state) {
  Square square{static_cast<std::size_t>(state.range(0))};
  if (!square.answer_is_right()) {
    state.SkipWithError("gemm differs from its reference");
    return;
  }
  const Gemm g = square.product();
  const auto n = static_cast<dnnl_dim_t>(square.size);
  const std::size_t times = repeats(square.size);
  std::vector<double> door;
  std::vector<double> raw;
  for (auto _ : state) {
    door.push_back(seconds_of([&] {
      for (std::size_t i = 0; i < times; ++i) {
        gemm(g);
      }
    }));
    raw.push_back(seconds_of([&] {
      for (std::size_t i = 0; i < times; ++i) {
        dnnl_sgemm('N', 'N', n, n, n, 1.0F, g.a, n, g.b, n, 0.0F, g.c, n);
      }
    }));
    state.SetIterationTime(door.back());
  }
  const double flops = 2e-9 * std::pow(static_cast<double>(square.size), 3) * times;
  state.counters["GFLOP/s"] = flops / median(door);
  state.counters["raw_GFLOP/s"] = flops / median(raw);
  state.counters["of_raw"] = median(raw) / median(door);
}

// A batch on threads over the products; the ratio is to one product after the other.
void gemm_batched(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  const auto count = static_cast<std::size_t>(state.range(1));
  const std::size_t area = size * size;
  const std::vector<float> a = waves(area * count, 0.7F);
  const std::vector<float> b = waves(area * count, 1.3F);
  std::vector<float> c(area * count);
  const Gemm g{.m = size,
               .n = size,
               .k = size,
               .a = a.data(),
               .lda = size,
               .b = b.data(),
               .ldb = size,
               .c = c.data(),
               .ldc = size};
  std::vector<double> batch;
  std::vector<double> loop;
  for (auto _ : state) {
    batch.push_back(seconds_of([&] { gemm_batch(g, {count, area, area, area}); }));
    loop.push_back(seconds_of([&] {
      for (std::size_t i = 0; i < count; ++i) {
        Gemm one = g;
        one.a += i * area;
        one.b += i * area;
        one.c += i * area;
        gemm(one);
      }
    }));
    state.SetIterationTime(batch.back());
  }
  const double flops = 2e-9 * std::pow(static_cast<double>(size), 3) * count;
  state.counters["GFLOP/s"] = flops / median(batch);
  state.counters["speed_up_over_loop"] = median(loop) / median(batch);
}

BENCHMARK(gemm_square)->RangeMultiplier(2)->Range(64, 2048)->UseManualTime();
BENCHMARK(gemm_batched)->ArgsProduct({{32, 64, 128, 192, 256, 384}, {16}})->UseManualTime();

}  // namespace
}  // namespace darkformer::kernels

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  benchmark::AddCustomContext("oneDNN", darkformer::kernels::onednn_version());
  benchmark::AddCustomContext("threads", std::to_string(darkformer::threads()));
  benchmark::RunSpecifiedBenchmarks();
}
