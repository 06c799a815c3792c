// Speed of exact attention, after its answer was checked, beside dnnl_sgemm 256^3 in the same run.
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "darkformer/base/threads.h"
#include "darkformer/kernels/cpu_features.h"
#include "darkformer/kernels/exact_attention.h"
#include "darkformer/kernels/exact_attention_plan.h"
#include "darkformer/kernels/exact_attention_shapes.h"
#include "darkformer/kernels/yardstick.h"

namespace darkformer::kernels {
namespace {

using Values = std::vector<float>;

Values waves(std::size_t count, float frequency) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = std::sin(frequency * static_cast<float>(i % 65521));
  }
  return values;
}

struct Problem {
  ExactAttention a;
  Values q, k, v, o, lse, d_o, dq, dk, dv;

  explicit Problem(const ExactAttention& shape)
      : a(shape),
        q(waves(a.B * a.H * a.T * a.D, 0.7F)),
        k(waves(a.B * a.G * a.S * a.D, 1.3F)),
        v(waves(a.B * a.G * a.S * a.Dv, 0.3F)),
        o(a.B * a.H * a.T * a.Dv),
        lse(a.B * a.H * a.T),
        d_o(waves(o.size(), 0.9F)),
        dq(q.size()),
        dk(k.size()),
        dv(v.size()) {}
  AttentionInputs in() const {
    return {contiguous_heads(q.data(), a.H, a.T, a.D), contiguous_heads(k.data(), a.G, a.S, a.D),
            contiguous_heads(v.data(), a.G, a.S, a.Dv)};
  }
  void forward() {
    exact_attention(
        a, in(),
        {contiguous_heads(o.data(), a.H, a.T, a.Dv), contiguous_heads(lse.data(), a.H, a.T, 1)});
  }
  void backward() {
    exact_attention_backward(
        a, in(),
        {contiguous_heads<const float>(o.data(), a.H, a.T, a.Dv),
         contiguous_heads<const float>(lse.data(), a.H, a.T, 1),
         contiguous_heads<const float>(d_o.data(), a.H, a.T, a.Dv),
         {}},
        {contiguous_heads(dq.data(), a.H, a.T, a.D), contiguous_heads(dk.data(), a.G, a.S, a.D),
         contiguous_heads(dv.data(), a.G, a.S, a.Dv)});
  }
  // Pairs of query and key that are visible, all heads.
  double pairs() const {
    const Visibility mask(a);
    double count = 0.0;
    for (std::size_t i = 0; i < a.T; ++i) {
      const auto last = mask.last(i);
      const auto first = std::max<std::ptrdiff_t>(0, mask.before_window(i) + 1);
      count += static_cast<double>(last + 1 - first);
      count += static_cast<double>(std::min(mask.sinks(), first));
    }
    return count * static_cast<double>(a.B * a.H);
  }
  // The last query of the last head, which sees most, against the reference; the tests do the rest.
  bool answer_is_right() {
    forward();
    ExactAttention one = a;
    one.B = one.H = one.G = one.T = 1;
    AttentionInputs last = in();
    last.q.data = last.q.row(a.B - 1, a.H - 1, a.T - 1);
    last.k.data = last.k.row(a.B - 1, a.G - 1, 0);
    last.v.data = last.v.row(a.B - 1, a.G - 1, 0);
    std::vector<double> want(a.Dv);
    double lse_want = 0.0;
    exact_attention_ref(one, last, {contiguous_heads(want.data(), 1, 1, a.Dv), {&lse_want}});
    double worst = std::abs(lse_want - lse.back());
    for (std::size_t d = 0; d < a.Dv; ++d) {
      worst = std::max(worst, std::abs(want[d] - o[o.size() - a.Dv + d]));
    }
    return worst < 1e-4;  // all values are at most 1; the tests hold the computed bounds
  }
};

// 2 products of D multiply-adds forward (scores, values); 5 backward.
void run(benchmark::State& state, const ExactAttention& shape, bool backward) {
  Problem problem(shape);
  if (!problem.answer_is_right()) {
    state.SkipWithError("exact attention differs from its reference");
    return;
  }
  Yardstick yardstick;
  std::vector<double> times;
  for (auto _ : state) {
    const double time = seconds_of([&] { backward ? problem.backward() : problem.forward(); });
    state.SetIterationTime(time);
    times.push_back(time);
    yardstick.sample();
  }
  const auto D = static_cast<double>(shape.D);
  const auto Dv = static_cast<double>(shape.Dv);
  const double flop = 2e-9 * problem.pairs() * (backward ? 3 * D + 2 * Dv : D + Dv);
  const double rate = flop / median(times);
  state.counters["GFLOP/s"] = rate;
  state.counters["of_sgemm"] = rate / yardstick.gflops();
  const double bytes = 4e-9 * static_cast<double>(problem.k.size() + problem.v.size());
  state.counters["GB/s"] = bytes / median(times);
}

void register_all() {
  for (const ShapeLine& line : read_shapes(DARKFORMER_SHAPES "/exact_attention.txt")) {
    const ExactAttention shape = exact_attention_shape(line);
    for (const bool backward : {false, true}) {
      if (line.flag("large") && (!backward || shape.T > 1)) {
        const std::string name = backward ? "backward/" : "forward/";
        benchmark::RegisterBenchmark(("exact_attention_" + name + line.id()).c_str(),
                                     [=](benchmark::State& state) { run(state, shape, backward); })
            ->UseManualTime();
      }
    }
  }
}

}  // namespace
}  // namespace darkformer::kernels

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  benchmark::AddCustomContext("simd", darkformer::kernels::simd_target());
  benchmark::AddCustomContext("threads", std::to_string(darkformer::threads()));
  darkformer::kernels::register_all();
  benchmark::RunSpecifiedBenchmarks();
}
