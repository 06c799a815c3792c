// Gives files to a fuzzer without libFuzzer: seeds and past findings, in every build.
// SPDX-License-Identifier: Apache-2.0
//
//   PROGRAM FOLDER...   every file in them
#include <algorithm>
#include <cstdio>
#include <vector>

#include "darkformer/base/read_file.h"
#include "fuzz/input.h"

int main(int argc, char** argv) {
  std::size_t count = 0;
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) {
      continue;  // a fuzzer without findings
    }
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      const std::string bytes = darkformer::read_file(entry.path());
      std::printf("%s\n", entry.path().c_str());
      std::fflush(stdout);
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
      ++count;
    }
  }
  std::printf("%zu inputs\n", count);
  return count == 0 ? 1 : 0;
}
