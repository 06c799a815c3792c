// CPUID for the AMX trap, Highway's target choice, oneDNN's cap: all of it done as the library
// loads.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/cpu_features.h"

#include <oneapi/dnnl/dnnl.h>

#include <cctype>
#include <cstdlib>

#include "darkformer/base/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "darkformer/kernels/cpu_features.cc"
#include "hwy/foreach_target.h"  // compiles this file once per target; must precede highway.h
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {
std::int64_t compiled_target() {
  return HWY_TARGET;
}
}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#if HWY_ARCH_X86
#include <cpuid.h>
#endif

namespace darkformer::kernels {
namespace {

HWY_EXPORT(compiled_target);
constexpr const char* kSimdVariable = "DARKFORMER_SIMD";

std::string target_name(std::int64_t target) {
  switch (target) {
    case HWY_AVX3:
      return "avx512";
    case HWY_EMU128:
    case HWY_SCALAR:
      return "portable";
    default: {
      std::string name = hwy::TargetName(target);
      for (char& letter : name) {
        letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
      }
      return name;
    }
  }
}

// The targets of CPU and build, whatever is forced. Lower bits are better targets. The baseline is
// always there: Highway does not report EMU128 as supported where the CPU has more.
std::int64_t attainable_targets() {
  static const std::int64_t targets = (hwy::SupportedTargets() & HWY_TARGETS) | HWY_STATIC_TARGET;
  return targets;
}

std::vector<std::int64_t> split(std::int64_t targets) {
  std::vector<std::int64_t> list;
  for (; targets != 0; targets &= targets - 1) {
    list.push_back(targets & -targets);
  }
  return list;
}

std::vector<std::string> names_of(std::int64_t targets) {
  std::vector<std::string> names;
  for (const std::int64_t target : split(targets)) {
    names.push_back(target_name(target));
  }
  return names;
}

std::int64_t find_target(std::string_view name) {
  for (const std::int64_t target : split(attainable_targets())) {
    if (target_name(target) == name) {
      return target;
    }
  }
  return 0;
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

void force_target(std::int64_t target) {
  attainable_targets();  // asks the CPU while nothing is forced
  hwy::SetSupportedTargetsForTest(target);
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// A wrong name is kept for simd_target() to report: nobody can catch an error at load time.
std::string force_simd_from_environment() {
  const std::string name = environment(kSimdVariable);
  const std::int64_t target = find_target(name);
  if (target != 0) {
    force_target(target);
  }
  return name.empty() || target != 0 ? "" : name;
}

std::string cap_onednn() {
  if (!amx_is_a_trap(read_amx_leaves())) {
    return "oneDNN uses all of this CPU";
  }
  if (!environment("ONEDNN_MAX_CPU_ISA").empty() || !environment("DNNL_MAX_CPU_ISA").empty()) {
    return "AMX is promised but hidden; oneDNN left as its environment variable says";
  }
  const dnnl_status_t status = dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);
  return status == dnnl_success
             ? "AMX is promised but hidden: oneDNN capped to AVX512_CORE_BF16"
             : "AMX is promised but hidden, and oneDNN was already in use: bf16 may die; set "
               "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16";
}

// Dynamic initialisation of this file: the objects of a folder are always linked whole.
const std::string wrong_simd_name = force_simd_from_environment();
[[maybe_unused]] const std::string& isa_note_at_load = cap_unsafe_isa();

}  // namespace

AmxLeaves read_amx_leaves() {
  AmxLeaves leaves;
#if HWY_ARCH_X86
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0) {
    leaves.features = edx;
  }
  if (__get_cpuid_count(0x1D, 0, &eax, &ebx, &ecx, &edx) != 0) {
    leaves.palettes = eax;
  }
  if (__get_cpuid_count(0x1D, 1, &eax, &ebx, &ecx, &edx) != 0) {
    leaves.palette_one = eax;
  }
  if (__get_cpuid_count(0x1E, 0, &eax, &ebx, &ecx, &edx) != 0) {
    leaves.multiply_unit = ebx;
  }
#endif
  return leaves;
}

bool amx_is_a_trap(const AmxLeaves& leaves) {
  constexpr std::uint32_t kAmxBits = 1U << 22 | 1U << 24 | 1U << 25;  // bf16, tile, int8
  const bool promised = (leaves.features & kAmxBits) != 0;
  const bool described =
      leaves.palettes != 0 && leaves.palette_one != 0 && leaves.multiply_unit != 0;
  return promised && !described;
}

const std::string& cap_unsafe_isa() {
  static const std::string note = cap_onednn();
  return note;
}

std::string simd_target() {
  require(wrong_simd_name.empty(), kSimdVariable, "=", wrong_simd_name,
          ": no such target here; use one of ", join(simd_targets()), " or leave it unset");
  return target_name(HWY_DYNAMIC_DISPATCH(compiled_target)());
}

std::vector<std::string> simd_targets() {
  return names_of(attainable_targets());
}

std::vector<std::string> compiled_simd_targets() {
  return names_of(HWY_TARGETS);
}

void force_simd(std::string_view name) {
  const std::int64_t target = find_target(name);
  require(target != 0 || name.empty(), "force_simd: no target \"", name, "\" here; have ",
          join(simd_targets()));
  force_target(target);
}

std::string onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  return concat(version->major, ".", version->minor, ".", version->patch);
}

}  // namespace darkformer::kernels
#endif  // HWY_ONCE
