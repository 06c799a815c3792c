// The machine as /proc and the scheduler describe it.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/system_info.h"

#include <sched.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <limits>
#include <thread>

namespace darkformer {
namespace {

constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();

// The text after "key:" in a file of "key: value" lines, or "".
std::string field(const char* file, const std::string& key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (line.rfind(key, 0) == 0) {
      const std::size_t colon = line.find(':');
      const std::size_t start = line.find_first_not_of(" \t", colon + 1);
      return start == std::string::npos ? "" : line.substr(start);
    }
  }
  return "";
}

std::int64_t kibibytes(const char* file, const std::string& key) {
  const std::string text = field(file, key);
  return text.empty() ? 0 : std::strtoll(text.c_str(), nullptr, 10) * 1024;
}

// One number of a cgroup file; "max" or no such file: unknown.
std::int64_t cgroup_number(const char* file) {
  std::ifstream stream(file);
  std::int64_t value = 0;
  return stream >> value ? value : kUnknown;
}

// "key number" of a container's memory.stat; 0 where there is none.
std::int64_t cgroup_stat(const std::string& key) {
  std::ifstream stream("/sys/fs/cgroup/memory.stat");
  std::string name;
  for (std::int64_t value = 0; stream >> name >> value;) {
    if (name == key) {
      return value;
    }
  }
  return 0;
}

int allowed_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    return std::max(1, CPU_COUNT(&set));
  }
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace

SystemInfo system_info() {
  utsname name{};
  uname(&name);
  const std::string cpu = field("/proc/cpuinfo", "model name");
  return {cpu.empty() ? std::string(name.machine) : cpu,
          std::string(name.sysname) + " " + name.release + " " + name.machine, allowed_threads()};
}

MemoryInfo memory_info() {
  MemoryInfo memory{
      kibibytes("/proc/meminfo", "MemTotal"), kibibytes("/proc/meminfo", "MemAvailable"),
      kibibytes("/proc/self/status", "VmRSS"), kibibytes("/proc/self/status", "VmHWM")};
  const std::int64_t limit = cgroup_number("/sys/fs/cgroup/memory.max");
  const std::int64_t used = cgroup_number("/sys/fs/cgroup/memory.current");
  if (limit != kUnknown && used != kUnknown) {
    memory.total = std::min(memory.total, limit);
    // Pages of files are counted as used, but go when memory is needed.
    const std::int64_t files = cgroup_stat("inactive_file") + cgroup_stat("active_file");
    memory.available = std::min(memory.available, std::max<std::int64_t>(0, limit - used + files));
  }
  return memory;
}

std::string bytes_text(std::int64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.2f %s", value, kUnits[unit]);
  return text;
}

}  // namespace darkformer
