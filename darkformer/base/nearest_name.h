// "Did you mean ...?": the known name closest to a mistyped one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace darkformer {

// How many letters to insert, remove, replace or swap with a neighbour to turn one into the other.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The closest of `known`, or "" when none is close: at most a third of the letters differ, or the
// typed text is the beginning of exactly one name.
std::string nearest_name(std::string_view typed, const std::vector<std::string>& known);

// "; did you mean 'x'?" or "".
std::string did_you_mean(std::string_view typed, const std::vector<std::string>& known);

}  // namespace darkformer
