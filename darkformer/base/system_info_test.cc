// The machine's figures are plausible and follow what the process does.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/system_info.h"

#include <gtest/gtest.h>

#include <vector>

namespace darkformer::system_info_test {
namespace {

TEST(SystemInfo, KnowsTheMachine) {
  const SystemInfo info = system_info();
  EXPECT_FALSE(info.cpu.empty());
  EXPECT_EQ(info.cpu.find('\n'), std::string::npos);
  EXPECT_NE(info.system.find(' '), std::string::npos);
  EXPECT_GE(info.hardware_threads, 1);
}

TEST(SystemInfo, MemoryIsPlausible) {
  const MemoryInfo memory = memory_info();
  EXPECT_GT(memory.available, 0);
  EXPECT_GE(memory.total, memory.available);
  EXPECT_GT(memory.resident, 0);
  EXPECT_GE(memory.peak, memory.resident);
}

TEST(SystemInfo, ResidentMemoryFollowsAnAllocation) {
  constexpr std::size_t kBytes = 64 << 20;
  const MemoryInfo before = memory_info();
  MemoryInfo during{};
  {
    const std::vector<char> block(kBytes, 1);
    during = memory_info();
    EXPECT_EQ(block[kBytes / 2], 1);
  }
  EXPECT_GT(during.resident, before.resident + static_cast<std::int64_t>(kBytes) / 2);
  EXPECT_GE(memory_info().peak, during.resident - (1 << 20));
}

TEST(SystemInfo, BytesReadWell) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1536), "1.50 KiB");
  EXPECT_EQ(bytes_text(std::int64_t{5} << 30), "5.00 GiB");
}

}  // namespace
}  // namespace darkformer::system_info_test
