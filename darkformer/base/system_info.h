// What machine this is and how much memory is left.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace darkformer {

struct SystemInfo {
  std::string cpu;       // "Intel(R) Xeon(R) ...", or the architecture where the name is unknown
  std::string system;    // "Linux 6.1.0 x86_64"
  int hardware_threads;  // those this process may run on
};

SystemInfo system_info();

// Bytes. Limits of a container (cgroup) count as the machine's own where they are lower.
struct MemoryInfo {
  std::int64_t total;
  std::int64_t available;  // what can be used without swapping
  std::int64_t resident;   // of this process, now
  std::int64_t peak;       // of this process, at its highest
};

MemoryInfo memory_info();

// "512 B", "1.50 GiB".
std::string bytes_text(std::int64_t bytes);

}  // namespace darkformer
