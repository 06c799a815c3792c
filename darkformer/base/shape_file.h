// Problem sizes as text, shared by tests and benchmarks: "B2 H4 T65 window16 full", one a line.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace darkformer {

class ShapeLine {
 public:
  // Words of letters followed by a number (or by none: a flag). Throws Error on anything else.
  explicit ShapeLine(const std::string& text);

  // The words joined by "_": a name for the problem that spells its shape.
  const std::string& id() const { return id_; }
  std::size_t size(const std::string& name, std::size_t fallback = 0) const;
  bool flag(const std::string& name) const { return sizes_.count(name) != 0; }

 private:
  std::string id_;
  std::map<std::string, std::size_t> sizes_;
};

// All lines of a file; empty lines and lines that start with # are skipped.
std::vector<ShapeLine> read_shapes(const std::string& path);

}  // namespace darkformer
