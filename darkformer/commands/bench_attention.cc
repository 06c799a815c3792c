// Feature attention and exact attention, checked, then timed.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <iomanip>
#include <ostream>

#include "darkformer/base/error.h"
#include "darkformer/base/threads.h"
#include "darkformer/commands/bench_parts.h"
#include "darkformer/commands/bench_timing.h"
#include "darkformer/kernels/dark_attention.h"
#include "darkformer/kernels/dark_problem.h"
#include "darkformer/kernels/exact_attention.h"
#include "darkformer/kernels/gemm.h"

namespace darkformer {
namespace {

using kernels::DarkAttention;
using kernels::DarkProblem;

DarkProblem problem_of(std::int64_t heads,
                       std::int64_t length,
                       std::int64_t size,
                       std::int64_t features) {
  return kernels::read_problem(
      concat("B1 H", heads, " G", heads, " T", length, " D", size, " F", features));
}

std::vector<float> forward(const DarkProblem& p) {
  std::vector<float> o(p.d_o.size());
  kernels::DarkCache cache;
  kernels::dark_attention(p.shape, p.inputs(),
                          kernels::contiguous_heads(o.data(), p.shape.H, p.shape.T, p.shape.Dv),
                          cache, false);
  return o;
}

void forward_backward(const DarkProblem& p) {
  const DarkAttention& s = p.shape;
  std::vector<float> o(p.d_o.size()), dq(p.q.size()), dk(p.k.size()), dv(p.v.size());
  kernels::DarkCache cache;
  kernels::dark_attention(s, p.inputs(), kernels::contiguous_heads(o.data(), s.H, s.T, s.Dv), cache,
                          true);
  kernels::DarkGradients gradients;
  gradients.dq = dq.data(), gradients.dk = dk.data(), gradients.dv = dv.data();
  kernels::dark_attention_backward(
      s, p.inputs(), kernels::contiguous_heads<const float>(o.data(), s.H, s.T, s.Dv),
      kernels::contiguous_heads(p.d_o.data(), s.H, s.T, s.Dv), cache, gradients);
}

void exact_forward(const DarkProblem& p) {
  const DarkAttention& s = p.shape;
  std::vector<float> o(p.d_o.size());
  kernels::ExactAttention shape;
  shape.B = s.B, shape.H = s.H, shape.G = s.G, shape.T = s.T, shape.S = s.S, shape.D = s.D,
  shape.Dv = s.Dv, shape.scale = s.scale;
  const kernels::DarkInputs in = p.inputs();
  kernels::exact_attention(shape, {in.q, in.k, in.v},
                           {kernels::contiguous_heads(o.data(), s.H, s.T, s.Dv), {}});
}

// One head over a few chunks against the double reference: a wrong answer is not timed.
void check(std::int64_t size, std::int64_t features) {
  const DarkProblem p = problem_of(1, 150, size, features);
  const std::vector<double> want = kernels::dark_attention_ref(p.shape, p.inputs(), nullptr).o;
  const std::vector<float> got = forward(p);
  for (std::size_t i = 0; i < want.size(); ++i) {
    require(std::abs(got[i] - want[i]) < 1e-3, "the kernel is wrong at D ", size, ", F ", features,
            ": ", got[i], " instead of ", want[i]);
  }
}

struct Row {
  std::int64_t size, features, length;
  Timing forward, both, exact;
  double forward_share, both_share;
};

Row measure(const BenchOptions& options,
            std::int64_t size,
            std::int64_t features,
            std::int64_t length,
            double peak) {
  const DarkProblem p = problem_of(options.heads, length, size, features);
  Row row = {size,
             features,
             length,
             time_runs([&] { forward(p); }),
             time_runs([&] { forward_backward(p); }),
             {},
             0.0,
             0.0};
  // The square of a long sequence would take minutes: it is measured up to 16k.
  constexpr std::int64_t kLongestExact = 16384;
  if (length <= kLongestExact) {
    row.exact = time_runs([&] { exact_forward(p); });
  }
  // Useful operations: features of q and k (4 T D F) and the two products with the state (4 T F
  // Dv), per head.
  const double flops = 8.0 * static_cast<double>(length) * static_cast<double>(size) *
                       static_cast<double>(features) * static_cast<double>(options.heads);
  row.forward_share = flops / row.forward.seconds / 1e9 / peak;
  row.both_share = 3.5 * flops / row.both.seconds / 1e9 / peak;
  return row;
}

void print(const Row& row, double peak, std::ostream& out) {
  const auto percent = [](double share) { return 100.0 * share; };
  out << std::fixed << std::setw(5) << row.size << std::setw(6) << row.features << std::setw(8)
      << row.length << std::setprecision(2) << std::setw(10) << 1e3 * row.forward.seconds
      << std::setprecision(0) << std::setw(5) << percent(row.forward.spread) << "%" << std::setw(8)
      << row.forward_share * peak << std::setw(6) << percent(row.forward_share) << "%"
      << std::setprecision(2) << std::setw(11) << 1e3 * row.both.seconds << std::setprecision(0)
      << std::setw(6) << percent(row.both_share) << "%";
  if (row.exact.seconds > 0.0) {
    out << std::setprecision(2) << std::setw(11) << 1e3 * row.exact.seconds << std::setw(7)
        << row.exact.seconds / row.forward.seconds << "x";
  } else {
    out << std::setw(11) << "-" << std::setw(8) << "-";
  }
  out << '\n';
}

OrderedJson json_of(const Row& row) {
  OrderedJson object;
  object["head_size"] = row.size, object["features"] = row.features, object["length"] = row.length;
  object["forward_seconds"] = row.forward.seconds, object["forward_spread"] = row.forward.spread,
  object["forward_share_of_peak"] = row.forward_share;
  object["forward_backward_seconds"] = row.both.seconds,
  object["forward_backward_share_of_peak"] = row.both_share;
  if (row.exact.seconds > 0.0) {
    object["exact_forward_seconds"] = row.exact.seconds;
  }
  return object;
}

}  // namespace

double peak_gflops() {
  constexpr std::size_t kSize = 256;
  const std::vector<float> a = kernels::normal_values(kSize * kSize, 1, 1.0F),
                           b = kernels::normal_values(kSize * kSize, 2, 1.0F);
  std::vector<float> c(kSize * kSize);
  const int before = threads();
  set_threads(1);
  const Timing timing = time_runs(
      [&] {
        kernels::gemm({.m = kSize,
                       .n = kSize,
                       .k = kSize,
                       .a = a.data(),
                       .lda = kSize,
                       .b = b.data(),
                       .ldb = kSize,
                       .c = c.data(),
                       .ldc = kSize});
      },
      0.2);
  set_threads(before);
  return 2.0 * kSize * kSize * kSize / timing.seconds / 1e9;
}

void bench_attention(const BenchOptions& options, Context& context) {
  if (options.head_sizes.size() != options.features.size()) {
    throw UsageError(concat(options.head_sizes.size(), " values for --head-sizes but ",
                            options.features.size(), " for --features; give as many of each"));
  }
  const std::vector<std::int64_t> lengths =
      options.lengths.empty() ? std::vector<std::int64_t>{1024, 4096} : options.lengths;
  const double peak = peak_gflops();
  OrderedJson rows = OrderedJson::array();
  if (!context.common.json) {
    context.out
        << "peak of one thread (256 x 256 products): " << std::fixed << std::setprecision(0) << peak
        << " GFLOP/s; " << options.heads << " heads; CPU time of all threads\n"
        << " head  feat  length   forward spread GFLOP/s  peak    + backward   peak   exact fwd  "
           "ratio\n"
        << "                         (ms)                             (ms)            (ms)\n";
  }
  for (std::size_t i = 0; i < options.features.size(); ++i) {
    check(options.head_sizes[i], options.features[i]);
    for (const std::int64_t length : lengths) {
      context.stop_if_interrupted("stopped; the rows above are complete");
      const Row row = measure(options, options.head_sizes[i], options.features[i], length, peak);
      if (!context.common.json) {
        print(row, peak, context.out);
      }
      rows.push_back(json_of(row));
    }
  }
  if (context.common.json) {
    OrderedJson result;
    result["peak_gflops"] = peak, result["threads"] = threads(), result["heads"] = options.heads,
    result["rows"] = rows;
    context.print_json(result);
  }
}

}  // namespace darkformer
