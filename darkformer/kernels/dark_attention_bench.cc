// Speed of dark attention over tests/shapes/dark_attention.txt, after its answer was checked,
// beside dnnl_sgemm 256^3 in the same run.
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "darkformer/base/threads.h"
#include "darkformer/kernels/cpu_features.h"
#include "darkformer/kernels/dark_attention.h"
#include "darkformer/kernels/dark_problem.h"
#include "darkformer/kernels/yardstick.h"

namespace darkformer::kernels {
namespace {

struct Run {
  explicit Run(const DarkProblem& problem)
      : p(problem), o(p.d_o.size()), dq(p.q.size()), dk(p.k.size()), dv(p.v.size()) {}

  void forward(bool record) {
    const DarkAttention& s = p.shape;
    DarkCache cache;
    dark_attention(s, p.inputs(), contiguous_heads(o.data(), s.H, s.T, s.Dv), cache, record);
    if (record) {
      DarkGradients gradients;
      gradients.dq = dq.data(), gradients.dk = dk.data(), gradients.dv = dv.data();
      dark_attention_backward(s, p.inputs(),
                              contiguous_heads<const float>(o.data(), s.H, s.T, s.Dv),
                              contiguous_heads(p.d_o.data(), s.H, s.T, s.Dv), cache, gradients);
    }
  }

  // Outputs and dq of the last query of the last head, which sees most, against the reference: a
  // causal problem with one query sees all keys. The tests do the rest.
  bool answer_is_right() {
    forward(true);
    DarkAttention s = p.shape;
    if (!s.causal) {
      return true;  // small shapes, all in the tests
    }
    const DarkInputs all = p.inputs();
    const std::size_t last = s.B * s.H * s.T - 1;
    s.T = 1;
    DarkInputs in = all;
    in.q.data = all.q.row(0, 0, p.shape.T - 1);
    if (p.gate_per_token) {
      return true;
    }
    std::vector<float> d_o(s.B * s.H * s.Dv);
    for (std::size_t bh = 0; bh < s.B * s.H; ++bh) {
      const float* from = &p.d_o[((bh + 1) * p.shape.T - 1) * s.Dv];
      std::copy(from, from + s.Dv, &d_o[bh * s.Dv]);
    }
    const DarkReference want = dark_attention_ref(s, in, d_o.data());
    return close(&want.o[want.o.size() - s.Dv], &o[last * s.Dv], s.Dv) &&
           close(&want.dq[want.dq.size() - s.D], &dq[last * s.D], s.D);
  }

  static bool close(const double* want, const float* got, std::size_t count) {
    double worst = 0.0, largest = 1e-6;
    for (std::size_t i = 0; i < count; ++i) {
      worst = std::max(worst, std::abs(want[i] - got[i]));
      largest = std::max(largest, std::abs(want[i]));
    }
    return worst < 1e-3 * largest;  // the tests hold the computed bounds
  }

  // Useful operations of a forward pass: features of q and k, the two products with the state.
  double gflop() const {
    const DarkAttention& s = p.shape;
    const auto product = [](std::size_t a, std::size_t b, std::size_t c) {
      return 2e-9 * static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
    };
    const std::size_t queries = s.B * s.H * s.T, keys = s.B * s.N * s.S;
    return product(queries, s.F, s.D + s.Dv) + product(keys, s.F, s.R + s.Dv) +
           (p.factor.empty() ? 0.0 : product(keys, s.R, s.D));
  }

  const DarkProblem& p;
  std::vector<float> o, dq, dk, dv;
};

void measure(benchmark::State& state, const ShapeLine& line, bool backward) {
  const DarkProblem problem = read_problem(line);
  Run run(problem);
  if (!run.answer_is_right()) {
    state.SkipWithError("dark attention differs from its reference");
    return;
  }
  Yardstick yardstick;
  std::vector<double> times;
  for (auto _ : state) {
    times.push_back(seconds_of([&] { run.forward(backward); }));
    state.SetIterationTime(times.back());
    yardstick.sample();
  }
  const double rate = (backward ? 3.5 : 1.0) * run.gflop() / median(times);
  state.counters["GFLOP/s"] = rate;
  state.counters["of_sgemm"] = rate / yardstick.gflops();
}

void register_all() {
  for (const ShapeLine& line : read_shapes(DARKFORMER_SHAPES "/dark_attention.txt")) {
    for (const bool backward : {false, true}) {
      const std::string name = backward ? "forward_backward/" : "forward/";
      benchmark::RegisterBenchmark(("dark_attention_" + name + line.id()).c_str(),
                                   [=](benchmark::State& state) { measure(state, line, backward); })
          ->UseManualTime()
          ->MinTime(0.3);
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
