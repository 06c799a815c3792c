// Gathering versions and the machine's description.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/version.h"

#include <torch/version.h>

#include <sstream>

#include "darkformer/base/system_info.h"
#include "darkformer/base/threads.h"
#include "darkformer/build_info.h"
#include "darkformer/kernels/cpu_features.h"

namespace darkformer {

std::string program_version() {
  return kBuildVersion;
}

std::string program_commit() {
  return kBuildCommit;
}

std::string libtorch_version() {
  return TORCH_VERSION;
}

std::string version_text() {
  const SystemInfo machine = system_info();
  std::string targets;
  for (const std::string& target : kernels::compiled_simd_targets()) {
    targets += (targets.empty() ? "" : ", ") + target;
  }
  std::ostringstream out;
  out << "darkformer " << program_version() << " (commit " << program_commit() << ")\n"
      << "libtorch   " << libtorch_version() << "\n"
      << "oneDNN     " << kernels::onednn_version() << " (" << kernels::cap_unsafe_isa() << ")\n"
      << "SIMD       " << kernels::simd_target() << " in use; compiled in: " << targets << "\n"
      << "threads    " << threads() << " of " << machine.hardware_threads << "\n"
      << "CPU        " << machine.cpu << "\n"
      << "memory     " << bytes_text(memory_info().available) << " available of "
      << bytes_text(memory_info().total) << "\n"
      << "system     " << machine.system << "\n";
  return out.str();
}

}  // namespace darkformer
