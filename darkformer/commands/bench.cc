// darkformer bench: how fast the kernels are here, against the machine's own peak in the same run.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/bench_parts.h"
#include "darkformer/commands/command.h"

namespace darkformer {
namespace {

void bench(const BenchOptions& options, Context& context) {
  if (options.what == "gemm") {
    bench_gemm(options, context);
  } else {
    bench_attention(options, context);
  }
}

}  // namespace

Command bench_command() {
  return make_command<BenchOptions>(
      {.name = "bench",
       .summary = "Measure the kernels against this machine's peak",
       .example = "darkformer bench attention --lengths 1024 4096 --threads 1",
       .details = "Checks each answer against its reference first, then prints medians of CPU time "
                  "with their spread. attention: feature attention forward and forward + backward "
                  "beside exact attention and the peak of matrix products of 256; gemm: our door "
                  "to oneDNN beside libtorch's own product."},
      bench);
}

}  // namespace darkformer
