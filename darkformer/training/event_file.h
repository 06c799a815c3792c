// TensorBoard's event files: scalars over steps.
// SPDX-License-Identifier: Apache-2.0
//
// A file is a chain of records: length (8 bytes, little endian), masked CRC-32C of the length, the
// bytes, masked CRC-32C of the bytes. The bytes are an `Event` of TensorFlow's event.proto:
//   double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5;
//   SessionLog session_log = 7;     Summary: repeated Value value = 1
//   Value: string tag = 1; float simple_value = 2;     SessionLog: status = 1 (START = 1)
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace darkformer {

using Scalars = std::vector<std::pair<std::string, double>>;

// CRC-32C (Castagnoli), and rotated and shifted as in records.
std::uint32_t crc32c(std::string_view bytes);
std::uint32_t masked_crc32c(std::string_view bytes);

// One record around the bytes of an event.
std::string event_record(std::string_view event);
std::string version_event(double wall_time);
// Readers drop everything from `step` on that came before: a resumed run starts here.
std::string start_event(double wall_time, std::int64_t step);
std::string scalar_event(double wall_time, std::int64_t step, const Scalars& scalars);

// Writes a file of its own in the folder; several files of one run are read as one. One thread.
class EventFile {
 public:
  EventFile(const std::filesystem::path& folder, std::int64_t first_step);

  // Error: disk full.
  void write(std::int64_t step, const Scalars& scalars);

 private:
  struct Close {
    void operator()(std::FILE* stream) const { std::fclose(stream); }
  };
  void append(const std::string& event);

  std::filesystem::path file_;
  std::unique_ptr<std::FILE, Close> stream_;
};

}  // namespace darkformer
