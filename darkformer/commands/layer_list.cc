// Parsing and printing layers.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/layer_list.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>

#include "darkformer/base/error.h"

namespace darkformer {
namespace {

std::int64_t layer_number(const std::string& text, const std::string& whole, std::int64_t layers) {
  std::int64_t number = -1;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc() || end != text.data() + text.size() || number < 0) {
    throw UsageError(
        concat("'", whole, "' names no layers; wanted numbers and ranges such as 0,3-7, or all"));
  }
  if (number >= layers) {
    throw UsageError(
        concat("layer ", number, " does not exist; the model has layers 0 to ", layers - 1));
  }
  return number;
}

void add_range(const std::string& text, std::int64_t layers, std::set<std::int64_t>& chosen) {
  if (text == "all") {
    for (std::int64_t i = 0; i < layers; ++i) {
      chosen.insert(i);
    }
    return;
  }
  const std::size_t dash = text.find('-', 1);
  const std::int64_t first = layer_number(text.substr(0, dash), text, layers);
  const std::int64_t last =
      dash == std::string::npos ? first : layer_number(text.substr(dash + 1), text, layers);
  if (last < first) {
    throw UsageError(concat("'", text, "' runs backwards; wanted the smaller layer first"));
  }
  for (std::int64_t i = first; i <= last; ++i) {
    chosen.insert(i);
  }
}

}  // namespace

std::vector<std::int64_t> parse_layers(const char* flag,
                                       const std::vector<std::string>& texts,
                                       std::int64_t layers) {
  std::set<std::int64_t> chosen;
  for (const std::string& text : texts) {
    std::istringstream parts(text);
    for (std::string part; std::getline(parts, part, ',');) {
      try {
        add_range(part, layers, chosen);
      } catch (const UsageError& error) {
        throw UsageError(concat(flag, ": ", error.what()));
      }
    }
  }
  return {chosen.begin(), chosen.end()};
}

std::string layer_ranges(const std::vector<std::int64_t>& layers) {
  std::string text;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t end = i;
    while (end + 1 < layers.size() && layers[end + 1] == layers[end] + 1) {
      ++end;
    }
    text += (text.empty() ? "" : ", ") + std::to_string(layers[i]);
    text += end > i ? "-" + std::to_string(layers[end]) : "";
    i = end + 1;
  }
  return text;
}

}  // namespace darkformer
