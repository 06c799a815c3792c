// A lock on the folder itself.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "darkformer/base/error.h"

namespace darkformer {

FolderLock::FolderLock(const std::filesystem::path& folder)
    : descriptor_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  require(descriptor_ >= 0, folder.string(), ": cannot be opened: ", std::strerror(errno));
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(descriptor_);
    fail(folder.string(), ": another process works in this folder; wait for it, or give another");
  }
}

FolderLock::~FolderLock() {
  close(descriptor_);
}

}  // namespace darkformer
