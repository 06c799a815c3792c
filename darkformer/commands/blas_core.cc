// Asks OpenBLAS by its own function, where it is loaded.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/blas_core.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string_view>

namespace darkformer {
namespace {

constexpr const char* kVariable = "OPENBLAS_CORETYPE";

// OpenBLAS's name for the best kernels this CPU can run; null where we know of none.
const char* best_core() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    return "SKYLAKEX";
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return "HASWELL";
  }
#endif
  return nullptr;
}

// Does this choice use none of AVX2 and AVX-512?
bool is_old(std::string_view core) {
  constexpr std::array<std::string_view, 10> kOld = {
      "Katmai", "Coppermine", "Northwood",  "Prescott", "Banias",
      "Core2",  "Penryn",     "Dunnington", "Nehalem",  "Sandybridge"};
  for (const std::string_view old : kOld) {
    if (core == old) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string blas_core() {
  using CoreName = char* (*)();
  const auto ask = reinterpret_cast<CoreName>(dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  return ask != nullptr ? ask() : "";
}

void restart_with_best_blas(char** arguments) {
  const char* best = best_core();
  if (best == nullptr || std::getenv(kVariable) != nullptr || !is_old(blas_core())) {
    return;
  }
  setenv(kVariable, best, 1);
  execv("/proc/self/exe", arguments);
  unsetenv(kVariable);  // it could not: measure with what there is
}

}  // namespace darkformer
