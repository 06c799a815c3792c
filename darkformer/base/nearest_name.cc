// Edit distance and the choice of the nearest name.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/nearest_name.h"

#include <algorithm>

namespace darkformer {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<std::size_t> table((a.size() + 1) * width);
  const auto at = [&](std::size_t i, std::size_t j) -> std::size_t& {
    return table[i * width + j];
  };
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        at(i, j) = i + j;
        continue;
      }
      const std::size_t differs = a[i - 1] == b[j - 1] ? 0 : 1;
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + differs});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
      }
    }
  }
  return table.back();
}

std::string nearest_name(std::string_view typed, const std::vector<std::string>& known) {
  std::string best;
  std::size_t least = typed.size() + 1;
  std::vector<std::string> longer;
  for (const std::string& name : known) {
    const std::size_t distance = edit_distance(typed, name);
    if (distance < least &&
        distance <= std::max<std::size_t>(1, std::max(typed.size(), name.size()) / 3)) {
      least = distance;
      best = name;
    }
    if (!typed.empty() && name.rfind(typed, 0) == 0) {
      longer.push_back(name);
    }
  }
  return best.empty() && longer.size() == 1 ? longer.front() : best;
}

std::string did_you_mean(std::string_view typed, const std::vector<std::string>& known) {
  const std::string name = nearest_name(typed, known);
  return name.empty() ? "" : "; did you mean '" + name + "'?";
}

}  // namespace darkformer
