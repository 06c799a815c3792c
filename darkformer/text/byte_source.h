// The bytes of a file as one stream, decompressed on the way (gzip, zstd).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

namespace darkformer {

// Reads forward only, in bounded memory. Not thread-safe.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // Puts up to `capacity` (> 0) bytes into out and returns how many: 0 only at the end.
  // Throws Error when the file cannot be read, is cut short or is corrupt; the message names the
  // file.
  virtual std::size_t read(char* out, std::size_t capacity) = 0;

  // How much of the file as stored has been used: for progress against the file's size.
  virtual std::uint64_t stored_bytes_used() const = 0;
};

// Opens a file. The first bytes decide the compression; a name that ends in .gz or .zst but holds
// something else is an Error. gzip files of several members and zstd files of several frames are
// read to their end.
std::unique_ptr<ByteSource> open_bytes(const std::filesystem::path& path);

}  // namespace darkformer
