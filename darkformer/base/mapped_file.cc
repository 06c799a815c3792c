// Mapping files with mmap.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "darkformer/base/error.h"

namespace darkformer {
namespace {

// Closes at the end of the scope; a mapping outlives its descriptor.
class Descriptor {
 public:
  explicit Descriptor(const std::filesystem::path& path)
      // O_NONBLOCK: a pipe opens at once, and is then refused, instead of waiting for a writer.
      : number_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~Descriptor() {
    if (number_ >= 0) {
      close(number_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

std::string system_reason() {
  return std::generic_category().message(errno);
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const Descriptor file(path);
  require(file.number() >= 0, path.string(), ": cannot be opened: ", system_reason());
  struct stat status = {};
  require(fstat(file.number(), &status) == 0, path.string(), ": ", system_reason());
  require(S_ISREG(status.st_mode), path.string(), ": not a regular file");
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) {
    return;
  }
  void* mapped = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.number(), 0);
  require(mapped != MAP_FAILED, path.string(), ": cannot be mapped: ", system_reason());
  data_ = static_cast<const std::byte*>(mapped);
}

MappedFile::~MappedFile() {
  unmap();
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    unmap();
    path_ = std::move(other.path_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

void MappedFile::unmap() noexcept {
  if (data_ != nullptr) {
    munmap(const_cast<std::byte*>(data_), size_);
    data_ = nullptr;
  }
}

}  // namespace darkformer
