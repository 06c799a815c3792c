// Files and folders that appear whole or not at all.
// SPDX-License-Identifier: Apache-2.0
//
// Both write to ".<name>.partial" beside the target, sync it to the disk and rename it. Without
// commit(), or when anything fails, the partial one is removed and the target is untouched. What a
// killed process leaves behind is taken over by the next writer of the same target; two writers at
// once are a BusyError, not a mixture. Not thread-safe: one object, one thread.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

#include "darkformer/base/error.h"

namespace darkformer {

// Another process is writing the same target.
class BusyError : public Error {
 public:
  using Error::Error;
};

class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& target);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Throws Error with the system's reason (disk full, quota, ...) after removing the partial file.
  void write(const void* bytes, std::size_t count);
  void write(std::string_view text) { write(text.data(), text.size()); }
  // Replaces bytes written before, within [0, written()): for a header that knows what follows it.
  void overwrite(std::size_t offset, const void* bytes, std::size_t count);
  std::size_t written() const { return written_; }

  // Syncs and renames: from here on the target is the new file.
  void commit();

 private:
  [[noreturn]] void abandon(const char* action);

  std::filesystem::path target_;
  std::filesystem::path partial_;
  int descriptor_ = -1;
  std::size_t written_ = 0;
};

void write_file_atomically(const std::filesystem::path& target, std::string_view text);

// Fill path() with files, then commit(). A target that exists is replaced as a whole.
class AtomicDirectory {
 public:
  explicit AtomicDirectory(const std::filesystem::path& target);
  ~AtomicDirectory();
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;

  const std::filesystem::path& path() const { return partial_; }

  void commit();

 private:
  void discard() noexcept;

  std::filesystem::path target_;
  std::filesystem::path partial_;
  int descriptor_ = -1;
};

}  // namespace darkformer
