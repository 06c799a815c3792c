// Writing and reading files of JSON lines.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/jsonl.h"

#include <cerrno>
#include <cstring>

#include "darkformer/base/read_file.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;

void cut_half_line(const fs::path& file) {
  if (fs::exists(file)) {
    const std::size_t end = read_file(file).find_last_of('\n');
    fs::resize_file(file, end == std::string::npos ? 0 : end + 1);
  }
}

}  // namespace

JsonlWriter::JsonlWriter(const fs::path& file, Mode mode) : file_(file) {
  if (file.has_parent_path()) {
    fs::create_directories(file.parent_path());
  }
  if (mode == Mode::kAppend) {
    cut_half_line(file);
  }
  stream_.reset(std::fopen(file.c_str(), mode == Mode::kAppend ? "ae" : "we"));
  require(stream_ != nullptr, file.string(),
          ": cannot be opened for writing: ", std::strerror(errno));
}

void JsonlWriter::write(const OrderedJson& object) {
  const std::string line = object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  const bool written = std::fwrite(line.data(), 1, line.size(), stream_.get()) == line.size() &&
                       std::fflush(stream_.get()) == 0;
  require(written, file_.string(), ": cannot be written: ", std::strerror(errno));
}

std::vector<Json> read_jsonl(const fs::path& file) {
  const std::string text = read_file(file);
  std::vector<Json> objects;
  std::size_t number = 1;
  std::size_t start = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', start)) {
    const auto line = std::string_view(text).substr(start, end - start);
    objects.push_back(parse_json(line, file.string(), number));
    start = end + 1;
    ++number;
  }
  return objects;
}

}  // namespace darkformer
