// What of this CPU our kernels and oneDNN may use, and how to ask for less.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace darkformer::kernels {

// What CPUID says about AMX: leaf 7 promises it, leaves 0x1D and 0x1E describe its tiles.
struct AmxLeaves {
  std::uint32_t features = 0;       // leaf 7.0, EDX
  std::uint32_t palettes = 0;       // leaf 0x1D.0, EAX: the highest palette
  std::uint32_t palette_one = 0;    // leaf 0x1D.1, EAX: bytes of all tiles of palette 1
  std::uint32_t multiply_unit = 0;  // leaf 0x1E.0, EBX: rows and columns of the multiply unit
};
AmxLeaves read_amx_leaves();

// True where AMX is promised and its description is hidden (some virtual machines). oneDNN then
// generates bf16 kernels with tiles of size zero and the process dies with SIGILL; so does
// libtorch's bf16 matmul, which calls them.
bool amx_is_a_trap(const AmxLeaves& leaves);

// Keeps oneDNN (and so libtorch) off AMX where amx_is_a_trap(), unless the user set
// ONEDNN_MAX_CPU_ISA or DNNL_MAX_CPU_ISA. Runs by itself when this library is loaded, because it
// must come before the first use of oneDNN by anybody in the process; calling it again is free.
// Returns one line that says what was done.
const std::string& cap_unsafe_isa();

// The instruction set our kernels use: "avx512", "avx2" or "portable" (elsewhere Highway's name in
// small letters, such as "neon"). The choice is the best of the CPU unless the environment variable
// DARKFORMER_SIMD names another; it is read once, when this library is loaded. Throws Error when
// it named a target that this CPU or build does not have.
std::string simd_target();

// The names simd_target() can have on this machine, best first.
std::vector<std::string> simd_targets();

// The names of all targets this build has kernels for, best first; the CPU may lack some.
std::vector<std::string> compiled_simd_targets();

// Lets all kernels use the named target from now on; "" goes back to the best. For tests and
// benchmarks: not while a kernel runs. Throws Error for a name not in simd_targets().
void force_simd(std::string_view name);

std::string onednn_version();

}  // namespace darkformer::kernels
