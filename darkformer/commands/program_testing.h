// What tests of whole commands share: runs in this process, and copies of the golden models.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "darkformer/base/json.h"
#include "darkformer/commands/program.h"

namespace darkformer {

struct Outcome {
  int code;
  std::string out;
  std::string errors;

  // The object that --json prints last.
  Json json() const {
    const std::size_t end = out.find_last_not_of('\n');
    const std::size_t begin = out.rfind('\n', end);
    return parse_json(out.substr(begin == std::string::npos ? 0 : begin + 1), "standard output");
  }
};

inline Outcome run(const std::vector<std::string>& arguments) {
  std::ostringstream out;
  std::ostringstream errors;
  const int code = run_program(arguments, out, errors);
  return {code, out.str(), errors.str()};
}

// Exit code 1, nothing on standard output, and one line that has all the parts.
inline void expect_failure(const Outcome& outcome, const std::vector<std::string>& parts) {
  EXPECT_EQ(outcome.code, kExitFailed);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1) << outcome.errors;
  for (const std::string& part : parts) {
    EXPECT_NE(outcome.errors.find(part), std::string::npos) << outcome.errors << " has no " << part;
  }
}

inline std::filesystem::path golden_folder(const std::string& name) {
  return std::filesystem::path(DARKFORMER_GOLDEN) / name;
}

inline std::string read_bytes(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_bytes(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

}  // namespace darkformer
