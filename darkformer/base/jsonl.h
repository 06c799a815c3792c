// A file of JSON objects, one a line: run logs that survive a kill and can be followed while
// written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <vector>

#include "darkformer/base/json.h"

namespace darkformer {

// Each line reaches the system before write() returns. Not thread-safe: one writer, one thread.
class JsonlWriter {
 public:
  enum class Mode { kReplace, kAppend };

  // kAppend goes on after the last whole line: what a killed writer left half-written is cut off.
  explicit JsonlWriter(const std::filesystem::path& file, Mode mode = Mode::kReplace);

  // Throws Error when the line cannot be written (disk full).
  void write(const OrderedJson& object);

 private:
  struct Close {
    void operator()(std::FILE* stream) const { std::fclose(stream); }
  };
  std::filesystem::path file_;
  std::unique_ptr<std::FILE, Close> stream_;
};

// All lines of a file; a half-written last line is ignored, any other broken line is an Error that
// names it.
std::vector<Json> read_jsonl(const std::filesystem::path& file);

}  // namespace darkformer
