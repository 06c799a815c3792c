// One process at a time in a folder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace darkformer {

// Keeps others out while it lives; the system drops it with the process, however that ends. Nothing
// is written. File systems without locks (some network ones) let everybody in.
class FolderLock {
 public:
  // Error: another process has it.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace darkformer
