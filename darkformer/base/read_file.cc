// Reading a file in one go.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/read_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "darkformer/base/error.h"

namespace darkformer {

namespace fs = std::filesystem;

std::string read_file(const fs::path& file) {
  std::error_code code;
  const fs::file_status status = fs::status(file, code);
  require(fs::exists(status), file.string(),
          ": cannot be opened: ", code ? code.message() : std::strerror(ENOENT));
  require(!fs::is_directory(status), file.string(), ": is a folder, not a file");
  require(fs::is_regular_file(status), file.string(), ": not a regular file");
  std::ifstream stream(file, std::ios::binary);
  require(stream.is_open(), file.string(), ": cannot be opened: ", std::strerror(errno));
  std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  require(!stream.bad(), file.string(), ": reading failed");
  return text;
}

}  // namespace darkformer
