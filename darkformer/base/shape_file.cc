// Parses problem sizes.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/shape_file.h"

#include <fstream>
#include <sstream>

#include "darkformer/base/error.h"

namespace darkformer {
namespace {

constexpr const char* kDigits = "0123456789";
constexpr const char* kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

}  // namespace

ShapeLine::ShapeLine(const std::string& text) {
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::size_t letters = std::min(word.find_first_not_of(kLetters), word.size());
    const std::string number = word.substr(letters);
    require(
        letters > 0 && number.size() < 10 && number.find_first_not_of(kDigits) == std::string::npos,
        "shape \"", text, "\": wanted letters and then a number, got \"", word, "\"");
    sizes_[word.substr(0, letters)] = number.empty() ? 1 : std::stoul(number);
    id_ += (id_.empty() ? "" : "_") + word;
  }
}

std::size_t ShapeLine::size(const std::string& name, std::size_t fallback) const {
  const auto found = sizes_.find(name);
  return found == sizes_.end() ? fallback : found->second;
}

std::vector<ShapeLine> read_shapes(const std::string& path) {
  std::ifstream file(path);
  require(file.good(), path, ": cannot read this file of problem shapes");
  std::vector<ShapeLine> shapes;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') {
      shapes.emplace_back(line);
    }
  }
  return shapes;
}

}  // namespace darkformer
