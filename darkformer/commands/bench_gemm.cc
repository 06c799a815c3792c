// Our door to matrix products beside libtorch's own.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <cmath>
#include <iomanip>
#include <ostream>

#include "darkformer/base/error.h"
#include "darkformer/commands/bench_parts.h"
#include "darkformer/commands/bench_timing.h"
#include "darkformer/kernels/gemm.h"

namespace darkformer {

void bench_gemm(const BenchOptions& options, Context& context) {
  OrderedJson rows = OrderedJson::array();
  if (!context.common.json) {
    context.out << "  size  ours GFLOP/s  libtorch GFLOP/s  ratio\n";
  }
  const std::vector<std::int64_t> sizes =
      options.lengths.empty() ? std::vector<std::int64_t>{256, 1024} : options.lengths;
  for (const std::int64_t length : sizes) {
    context.stop_if_interrupted("stopped; the rows above are complete");
    const auto n = static_cast<std::size_t>(length);
    const at::Tensor a = at::randn({length, length}), b = at::randn({length, length}),
                     c = at::empty({length, length});
    const auto ours = [&] {
      kernels::gemm({.m = n,
                     .n = n,
                     .k = n,
                     .a = a.data_ptr<float>(),
                     .lda = n,
                     .b = b.data_ptr<float>(),
                     .ldb = n,
                     .c = c.data_ptr<float>(),
                     .ldc = n});
    };
    ours();
    // Both sum n products of normal numbers: they differ by a few roundings of a sum of that size.
    const double error = (c - at::matmul(a, b)).abs().max().item<double>();
    require(error < 1e-5 * std::sqrt(static_cast<double>(length)) * 10.0, "the product of size ",
            length, " is off by ", error);
    at::Tensor out;
    const std::vector<Timing> timings = time_in_turn({ours, [&] { out = at::matmul(a, b); }});
    const Timing &mine = timings[0], &theirs = timings[1];
    const double ratio = ratio_in_turn(theirs, mine);
    const double flops = 2.0 * std::pow(static_cast<double>(length), 3.0) / 1e9;
    if (!context.common.json) {
      context.out << std::fixed << std::setprecision(1) << std::setw(6) << length << std::setw(14)
                  << flops / mine.seconds << std::setw(18) << flops / theirs.seconds << std::setw(7)
                  << ratio << '\n';
    }
    OrderedJson row;
    row["size"] = length, row["seconds"] = mine.seconds, row["libtorch_seconds"] = theirs.seconds,
    row["gflops"] = flops / mine.seconds, row["libtorch_gflops"] = flops / theirs.seconds,
    row["ratio"] = ratio;
    rows.push_back(row);
  }
  if (context.common.json) {
    OrderedJson result;
    result["rows"] = rows;
    context.print_json(result);
  }
}

}  // namespace darkformer
