// darkformer bench: how fast the kernels are here, against the machine's own peak in the same run.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/base/system_info.h"
#include "darkformer/commands/bench_parts.h"
#include "darkformer/commands/command.h"

namespace darkformer {
namespace {

void bench(const BenchOptions& options, Context& context) {
  if (options.what == "gemm") {
    bench_gemm(options, context);
  } else if (options.what == "decode") {
    bench_decode(options, context);
  } else if (options.what == "train") {
    bench_train(options, context);
  } else {
    bench_attention(options, context);
  }
}

}  // namespace

void check_shapes(const BenchOptions& options) {
  if (options.head_sizes.size() != options.features.size()) {
    throw UsageError(concat(count_text(options.head_sizes.size(), "value"),
                            " for --head-sizes but ", options.features.size(),
                            " for --features; give as many of each"));
  }
}

std::vector<int> thread_counts(const CommonOptions& common) {
  if (common.threads > 0) {
    return {static_cast<int>(common.threads)};
  }
  return system_info().hardware_threads > 1 ? std::vector<int>{1, 2} : std::vector<int>{1};
}

Command bench_command() {
  return make_command<BenchOptions>(
      {.name = "bench",
       .summary = "Measure the kernels against this machine's peak",
       .example = "darkformer bench attention --lengths 1024 4096 --threads 1\n"
                  "darkformer bench train --kinds exact dark --lengths 1024",
       .details =
           "Checks each answer first, then times what is compared in turn and prints "
           "medians with their spread: CPU time on one thread, wall time on more. "
           "attention: feature attention and exact attention, forward and forward + backward, "
           "beside the same in plain ATen calls and the peak of matrix products of 256; "
           "decode: one token against states of contexts of any length, and a whole model "
           "beside a loop that only reads its weights, and sampling several sequences at once; "
           "train: whole training steps "
           "of a Gemma of a million parameters beside the same model in plain ATen calls; "
           "gemm: our door to oneDNN beside libtorch's own product."},
      bench);
}

}  // namespace darkformer
