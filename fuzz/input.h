// What the fuzzers share: the input as a file, and the one way a parser may refuse it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "darkformer/base/error.h"
#include "darkformer/base/log.h"
#include "darkformer/base/scratch_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace darkformer::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// A file of this name with these bytes, in the folder of this process.
inline std::filesystem::path input_file(const std::string& name, std::string_view bytes) {
  static const ScratchFolder folder;
  const std::filesystem::path path = folder.path() / name;
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr || std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size() ||
      std::fclose(file) != 0) {
    std::abort();
  }
  return path;
}

// Hostile bytes end in an Error of one printable line; anything else (another exception, a crash, a
// line break in the message) is a finding.
template <class Parse>
void expect_error_or_success(const Parse& parse) {
  set_log_level(LogLevel::kSilent);
  try {
    parse();
  } catch (const Error& error) {
    const std::string_view line = error.what();
    if (line.empty() || line.find('\n') != std::string_view::npos) {
      std::fprintf(stderr, "not one line: %s\n", error.what());
      std::abort();
    }
  }
}

inline void require_true(bool condition, const char* what) {
  if (!condition) {
    std::fprintf(stderr, "%s\n", what);
    std::abort();
  }
}

}  // namespace darkformer::fuzz
