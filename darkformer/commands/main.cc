// The darkformer program.
// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <string_view>

#include "darkformer/base/interrupt.h"
#include "darkformer/base/memory.h"
#include "darkformer/commands/blas_core.h"
#include "darkformer/commands/program.h"
#include "darkformer/kernels/cpu_features.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "bench") {
    darkformer::restart_with_best_blas(argv);  // and the system's allocator as it is, for all sides
  } else {
    darkformer::keep_freed_memory();
  }
  darkformer::report_cut_files();
  darkformer::kernels::cap_unsafe_isa();  // before anybody's first use of oneDNN
  return darkformer::run_program({argv + 1, argv + argc}, std::cout, std::cerr);
}
