// The AMX trap is recognised from its CPUID leaves; forced SIMD targets are the ones in use.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/cpu_features.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "darkformer/base/error.h"

namespace darkformer::kernels::cpu_features_test {
namespace {

constexpr std::uint32_t kSapphireRapids = 1U << 22 | 1U << 24 | 1U << 25;

TEST(CpuFeatures, HiddenAmxIsATrap) {
  EXPECT_TRUE(amx_is_a_trap({kSapphireRapids, 0, 0, 0}));
  EXPECT_TRUE(amx_is_a_trap({kSapphireRapids, 1, 0x2000, 0}));
  EXPECT_TRUE(amx_is_a_trap({1U << 24, 1, 0, 0x4010}));
}

TEST(CpuFeatures, DescribedOrAbsentAmxIsNone) {
  EXPECT_FALSE(amx_is_a_trap({kSapphireRapids, 1, 0x2000, 0x4010}));
  EXPECT_FALSE(amx_is_a_trap({0x20000010, 0, 0, 0}));  // Ice Lake
  EXPECT_FALSE(amx_is_a_trap({}));
}

TEST(CpuFeatures, CapSaysWhatItDid) {
  EXPECT_NE(cap_unsafe_isa().find("oneDNN"), std::string::npos);
  EXPECT_EQ(&cap_unsafe_isa(), &cap_unsafe_isa());
  const bool capped = cap_unsafe_isa().find("AMX") != std::string::npos;
  EXPECT_EQ(capped, amx_is_a_trap(read_amx_leaves()));
}

TEST(CpuFeatures, ForcedTargetIsInUse) {
  const std::string before = simd_target();
  const auto names = simd_targets();
  ASSERT_FALSE(names.empty());
  for (const std::string& name : names) {
    force_simd(name);
    EXPECT_EQ(simd_target(), name);
  }
  force_simd("");
  EXPECT_EQ(simd_target(), names.front());
  force_simd(before);
}

TEST(CpuFeatures, EveryBuildHasThePortableTargetOnX86) {
  const auto names = simd_targets();
#if defined(__x86_64__) && !defined(__AVX2__)
  EXPECT_NE(std::find(names.begin(), names.end(), "portable"), names.end());
#endif
  EXPECT_THROW(force_simd("quantum"), Error);
}

TEST(CpuFeatures, UsableTargetsAreCompiledIn) {
  const auto compiled = compiled_simd_targets();
  for (const std::string& name : simd_targets()) {
    EXPECT_NE(std::find(compiled.begin(), compiled.end(), name), compiled.end()) << name;
  }
}

TEST(CpuFeatures, OnednnVersionHasThreeNumbers) {
  const std::string version = onednn_version();
  EXPECT_EQ(std::count(version.begin(), version.end(), '.'), 2);
}

}  // namespace
}  // namespace darkformer::kernels::cpu_features_test
