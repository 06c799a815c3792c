// Prefill with stored weights beside the bare float32 product of the same shape.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/linear.h"

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "darkformer/base/threads.h"
#include "darkformer/kernels/convert.h"
#include "darkformer/kernels/matvec.h"

namespace darkformer::kernels {
namespace {

struct Inputs {
  std::size_t rows, out, in;
  std::vector<float> x, weight, y;
  std::vector<std::uint16_t> stored;

  explicit Inputs(const benchmark::State& state)
      : rows(static_cast<std::size_t>(state.range(0))),
        out(static_cast<std::size_t>(state.range(1))),
        in(static_cast<std::size_t>(state.range(2))),
        x(rows * in),
        weight(out * in),
        y(rows * out),
        stored(out * in) {
    std::mt19937 generator(1);
    for (auto* values : {&x, &weight}) {
      for (float& value : *values) {
        value = static_cast<float>(generator()) * 0x1p-32F - 0.5F;
      }
    }
    convert_from_float(weight.data(), StoredType::kBfloat16, weight.size(), stored.data());
    set_threads(static_cast<int>(state.range(3)));
  }
  StoredMatrix matrix(StoredType type) const {
    const void* data = stored.data();
    return {type == StoredType::kFloat32 ? weight.data() : data, type, out, in};
  }
  // The first row against the reference.
  bool is_right(StoredType type) const {
    std::vector<double> want(out);
    matvec_ref(matrix(type), x.data(), 1, want.data());
    for (std::size_t o = 0; o < out; ++o) {
      if (std::abs(y[o] - want[o]) > 1e-3) {
        return false;
      }
    }
    return true;
  }
};

void run(benchmark::State& state, StoredType type) {
  Inputs inputs(state);
  const StoredMatrix weight = inputs.matrix(type);
  linear(weight, inputs.x.data(), inputs.rows, inputs.y.data());
  if (!inputs.is_right(type)) {
    state.SkipWithError("linear is wrong");
    return;
  }
  for ([[maybe_unused]] auto _ : state) {
    linear(weight, inputs.x.data(), inputs.rows, inputs.y.data());
  }
  const auto flops = 2.0 * static_cast<double>(inputs.rows * inputs.out * inputs.in);
  state.counters["GFLOP/s"] = benchmark::Counter(
      flops * 1e-9 * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

void linear_bfloat16(benchmark::State& state) {
  run(state, StoredType::kBfloat16);
}
// Above kMatvecVectors rows this is the bare product.
void linear_float32(benchmark::State& state) {
  run(state, StoredType::kFloat32);
}

// Around the limit between matvec and gemm, then prefill; gemma-2b's projections.
void shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"rows", "out", "in", "threads"})->UseRealTime();
  for (const std::int64_t rows : {8, 16, 17, 64, 256}) {
    bench->Args({rows, 2048, 2048, 1});
  }
  bench->Args({64, 256, 2048, 1})->Args({256, 2048, 16384, 1})->Args({256, 2048, 2048, 2});
}
BENCHMARK(linear_float32)->Apply(shapes);
BENCHMARK(linear_bfloat16)->Apply(shapes);

}  // namespace
}  // namespace darkformer::kernels

BENCHMARK_MAIN();
