// What run.toml says of the program that wrote it: the fuzzers are built without libtorch.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/version.h"

namespace darkformer {

std::string program_version() {
  return "fuzz";
}

std::string program_commit() {
  return "fuzz";
}

std::string libtorch_version() {
  return "none";
}

}  // namespace darkformer
