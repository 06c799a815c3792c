// Files read once through, in large pieces.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/content_key.h"

#include <algorithm>
#include <fstream>
#include <system_error>

#include "darkformer/base/checksum.h"
#include "darkformer/base/error.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;

bool is_of_model(const fs::directory_entry& entry) {
  const std::string ending = entry.path().extension().string();
  return entry.is_regular_file() && entry.path().filename().string().front() != '.' &&
         (ending == ".json" || ending == ".safetensors" || ending == ".model");
}

void add_folder(const fs::path& folder, KeyBuilder& key) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (is_of_model(entry)) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  key.add(files.size());
  for (const fs::path& file : files) {
    key.add(file.filename().string()).add(file_checksum(file));
  }
}

}  // namespace

std::uint64_t file_checksum(const fs::path& path) {
  std::error_code code;
  const fs::file_status status = fs::status(path, code);
  require(fs::exists(status), path.string(), ": cannot be opened: ", code.message());
  require(fs::is_regular_file(status), path.string(), ": not a regular file");
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), path.string(), ": cannot be opened for reading");
  Checksum sum;
  std::vector<char> buffer(std::size_t{1} << 20);
  while (file) {
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    sum.update(buffer.data(), static_cast<std::size_t>(file.gcount()));
  }
  require(!file.bad(), path.string(), ": reading failed");
  return sum.value();
}

std::uint64_t content_key(const std::vector<fs::path>& paths) {
  KeyBuilder key;
  for (const fs::path& path : paths) {
    if (fs::is_directory(path)) {
      add_folder(path, key);
    } else {
      key.add(file_checksum(path));
    }
  }
  return key.value();
}

}  // namespace darkformer
