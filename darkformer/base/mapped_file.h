// A file mapped read-only into memory: pages are read when they are first used.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace darkformer {

// The bytes live as long as the object; moving it leaves them where they are. Reading is
// thread-safe. Another process that shortens the file meanwhile ends ours (SIGBUS): files of ours
// are replaced by renaming, never rewritten in place.
class MappedFile {
 public:
  // Error with the system's reason: not there, not readable, a folder.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const std::byte* data() const { return data_; }  // null when the file is empty
  std::size_t size() const { return size_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  void unmap() noexcept;

  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace darkformer
