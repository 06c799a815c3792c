// Partial names, locks, syncs and renames behind AtomicFile and AtomicDirectory.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/atomic_file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "darkformer/base/error.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_system(const fs::path& path, const char* action, int code) {
  fail(path.string(), ": cannot ", action, ": ", std::strerror(code));
}

// "a/b/" and "a/b" are the same target, and so is what a symbolic link leads to; an empty name or
// ".." is none.
fs::path clean_target(const fs::path& target) {
  fs::path clean = target.has_filename() ? target : target.parent_path();
  const std::string name = clean.filename().string();
  require(!name.empty() && name != "." && name != "..", "'", target.string(),
          "': not a name that can be written to");
  std::error_code none;
  return fs::is_symlink(clean, none) ? fs::weakly_canonical(clean, none) : clean;
}

fs::path partial_name(const fs::path& target) {
  return target.parent_path() / ("." + target.filename().string() + ".partial");
}

fs::path folder_of(const fs::path& target) {
  return target.has_parent_path() ? target.parent_path() : fs::path(".");
}

void make_parent(const fs::path& target) {
  std::error_code code;
  fs::create_directories(folder_of(target), code);
  require(!code, folder_of(target).string(), ": cannot create the folder: ", code.message());
}

// Does the name still lead to the open file? Not after another writer renamed it away.
bool names_descriptor(const fs::path& path, int descriptor) {
  struct stat open_file {};
  struct stat named {};
  return fstat(descriptor, &open_file) == 0 && stat(path.c_str(), &named) == 0 &&
         open_file.st_ino == named.st_ino && open_file.st_dev == named.st_dev;
}

// The partial file or folder, open and locked; `open_once` creates it if missing. It follows no
// link: what somebody put there under the partial name leads to nothing of ours.
template <class OpenOnce>
int open_locked(const fs::path& partial, const fs::path& target, const OpenOnce& open_once) {
  for (;;) {
    const int descriptor = open_once();
    if (descriptor < 0) {
      fail_system(target, "be written", errno);
    }
    // File systems without locks (some network ones) refuse with another code: go on unlocked.
    const bool locked = flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    if (locked && names_descriptor(partial, descriptor)) {
      return descriptor;
    }
    close(descriptor);
    if (!locked) {
      throw BusyError(target.string() + ": another process is writing it now");
    }
  }
}

void sync_path(const fs::path& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    fail_system(path, "be opened to sync it", errno);
  }
  const int result = fsync(descriptor);
  const int code = errno;
  close(descriptor);
  // EINVAL: a file system that has nothing to sync here.
  if (result != 0 && code != EINVAL) {
    fail_system(path, "be synced to the disk", code);
  }
}

void sync_tree(const fs::path& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() || entry.is_directory()) {
      sync_path(entry.path());
    }
  }
  sync_path(folder);
}

void empty_folder(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    fs::remove_all(entry.path());
  }
}

// Puts the partial folder in the target's place. An old target is swapped out in one step, then
// removed; file systems that cannot swap get two renames, with the old one safe in between.
void replace_folder(const fs::path& partial, const fs::path& target) {
  if (rename(partial.c_str(), target.c_str()) == 0) {
    return;
  }
  if (errno != ENOTEMPTY && errno != EEXIST) {
    fail_system(target, "be put in place", errno);
  }
  if (renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    fs::remove_all(partial);
    return;
  }
  const fs::path old = folder_of(target) / ("." + target.filename().string() + ".old");
  fs::remove_all(old);
  fs::rename(target, old);
  fs::rename(partial, target);
  fs::remove_all(old);
}

}  // namespace

AtomicFile::AtomicFile(const fs::path& target) : target_(clean_target(target)) {
  require(!fs::is_directory(target_), target_.string(), ": is a folder, wanted a file name");
  // A rename would put a plain file in the place of /dev/null, for everybody.
  require(!fs::exists(target_) || fs::is_regular_file(target_), target_.string(),
          ": is a device or pipe, wanted a file name");
  partial_ = partial_name(target_);
  make_parent(target_);
  descriptor_ = open_locked(partial_, target_, [this] {
    return open(partial_.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  });
  if (ftruncate(descriptor_, 0) != 0) {
    abandon("be emptied");
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) {
    unlink(partial_.c_str());
    close(descriptor_);
  }
}

void AtomicFile::abandon(const char* action) {
  const int code = errno;
  unlink(partial_.c_str());
  close(descriptor_);
  descriptor_ = -1;
  fail_system(target_, action, code);
}

void AtomicFile::write(const void* bytes, std::size_t count) {
  require(descriptor_ >= 0, target_.string(), ": an earlier write failed or it is committed");
  const char* next = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t done = ::write(descriptor_, next, count);
    if (done < 0 && errno != EINTR) {
      abandon("be written");
    }
    if (done > 0) {
      next += done;
      count -= static_cast<std::size_t>(done);
      written_ += static_cast<std::size_t>(done);
    }
  }
}

void AtomicFile::overwrite(std::size_t offset, const void* bytes, std::size_t count) {
  require(descriptor_ >= 0, target_.string(), ": an earlier write failed or it is committed");
  assert(offset + count <= written_);
  const char* next = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t done = pwrite(descriptor_, next, count, static_cast<off_t>(offset));
    if (done < 0 && errno != EINTR) {
      abandon("be written");
    }
    if (done > 0) {
      next += done;
      offset += static_cast<std::size_t>(done);
      count -= static_cast<std::size_t>(done);
    }
  }
}

void AtomicFile::commit() {
  require(descriptor_ >= 0, target_.string(), ": an earlier write failed or it is committed");
  if (fsync(descriptor_) != 0 && errno != EINVAL) {
    abandon("be synced to the disk");
  }
  if (rename(partial_.c_str(), target_.c_str()) != 0) {
    abandon("be put in place");
  }
  close(descriptor_);
  descriptor_ = -1;
  sync_path(folder_of(target_));
}

void write_file_atomically(const fs::path& target, std::string_view text) {
  AtomicFile file(target);
  file.write(text);
  file.commit();
}

AtomicDirectory::AtomicDirectory(const fs::path& target) : target_(clean_target(target)) {
  require(!fs::exists(target_) || fs::is_directory(target_), target_.string(),
          ": is a file, wanted a folder name");
  partial_ = partial_name(target_);
  make_parent(target_);
  descriptor_ = open_locked(partial_, target_, [this] {
    if (mkdir(partial_.c_str(), 0777) != 0 && errno != EEXIST) {
      return -1;
    }
    return open(partial_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  });
  empty_folder(partial_);
}

AtomicDirectory::~AtomicDirectory() {
  discard();
}

void AtomicDirectory::discard() noexcept {
  if (descriptor_ >= 0) {
    std::error_code ignored;
    fs::remove_all(partial_, ignored);
    close(descriptor_);
    descriptor_ = -1;
  }
}

void AtomicDirectory::commit() {
  require(descriptor_ >= 0, target_.string(), ": already committed");
  try {
    sync_tree(partial_);
    replace_folder(partial_, target_);
  } catch (const fs::filesystem_error& error) {
    discard();
    fail(target_.string(), ": cannot be put in place: ", error.code().message());
  } catch (...) {
    discard();
    throw;
  }
  close(descriptor_);
  descriptor_ = -1;
  sync_path(folder_of(target_));
}

}  // namespace darkformer
