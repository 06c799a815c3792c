// Cross-entropy with the head inside, beside the bare product that it cannot do without.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/cross_entropy.h"

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "darkformer/base/threads.h"
#include "darkformer/kernels/convert.h"
#include "darkformer/kernels/gemm.h"

namespace darkformer::kernels {
namespace {

struct Inputs {
  std::size_t rows, E, V;
  std::vector<float> hidden, weight, dloss;
  std::vector<std::uint16_t> stored;
  std::vector<std::int64_t> targets;

  explicit Inputs(const benchmark::State& state)
      : rows(static_cast<std::size_t>(state.range(0))),
        E(static_cast<std::size_t>(state.range(1))),
        V(static_cast<std::size_t>(state.range(2))),
        hidden(rows * E),
        weight(V * E),
        dloss(rows, 1.0F / static_cast<float>(rows)),
        stored(V * E),
        targets(rows) {
    std::mt19937 generator(1);
    for (auto* values : {&hidden, &weight}) {
      for (float& value : *values) {
        value = static_cast<float>(generator()) * 0x1p-32F - 0.5F;
      }
    }
    convert_from_float(weight.data(), StoredType::kBfloat16, weight.size(), stored.data());
    for (std::int64_t& target : targets) {
      target = static_cast<std::int64_t>(generator() % V);
    }
  }
  CrossEntropyProblem problem() const {
    return {
        hidden.data(), rows, {stored.data(), StoredType::kBfloat16, V, E}, targets.data(), 30.0F};
  }
  // The answer of the first row by the reference.
  bool is_right(const std::vector<float>& loss) const {
    CrossEntropyProblem one = problem();
    one.rows = 1;
    double want = 0.0, lse = 0.0;
    std::uint8_t correct = 0;
    std::vector<double> dhidden(E), dweight(V * E);
    cross_entropy_ref(one, dloss.data(), {&want, &lse, &correct, dhidden.data(), dweight.data()});
    return std::abs(loss[0] - want) < 1e-4;
  }
};

void report(benchmark::State& state, const Inputs& in, double products) {
  const double flops = 2.0 * products * static_cast<double>(in.rows * in.E * in.V);
  state.counters["GFLOP/s"] = benchmark::Counter(
      flops * 1e-9 * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

void cross_entropy_forward(benchmark::State& state) {
  const Inputs in(state);
  set_threads(static_cast<int>(state.range(3)));
  std::vector<float> loss(in.rows), lse(in.rows);
  cross_entropy(in.problem(), {loss.data(), lse.data()});
  if (!in.is_right(loss)) {
    state.SkipWithError("cross_entropy is wrong");
    return;
  }
  for ([[maybe_unused]] auto _ : state) {
    cross_entropy(in.problem(), {loss.data(), lse.data()});
  }
  report(state, in, 1.0);
}

void cross_entropy_gradients(benchmark::State& state) {
  const Inputs in(state);
  set_threads(static_cast<int>(state.range(3)));
  std::vector<float> loss(in.rows), lse(in.rows), dhidden(in.rows * in.E), dweight(in.V * in.E);
  cross_entropy(in.problem(), {loss.data(), lse.data()});
  for ([[maybe_unused]] auto _ : state) {
    cross_entropy_backward(in.problem(), lse.data(), in.dloss.data(),
                           {dhidden.data(), dweight.data()});
  }
  report(state, in, 3.0);
}

// The opponent: float32 weights and all (rows,V) logits in memory, nothing but the product.
void product_alone(benchmark::State& state) {
  const Inputs in(state);
  set_threads(static_cast<int>(state.range(3)));
  std::vector<float> logits(in.rows * in.V);
  for ([[maybe_unused]] auto _ : state) {
    gemm({.m = in.rows,
          .n = in.V,
          .k = in.E,
          .a = in.hidden.data(),
          .lda = in.E,
          .b = in.weight.data(),
          .ldb = in.E,
          .trans_b = true,
          .c = logits.data(),
          .ldc = in.V});
  }
  report(state, in, 1.0);
}

// E of gemma-3-270m and of gemma-2b, with a slice of their vocabulary.
void shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"rows", "E", "V", "threads"})
      ->Args({512, 640, 32768, 1})
      ->Args({512, 640, 32768, 2})
      ->Args({512, 2048, 16384, 1})
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}
BENCHMARK(product_alone)->Apply(shapes);
BENCHMARK(cross_entropy_forward)->Apply(shapes);
BENCHMARK(cross_entropy_gradients)->Apply(shapes);

}  // namespace
}  // namespace darkformer::kernels

BENCHMARK_MAIN();
