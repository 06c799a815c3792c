// Is this text well-formed UTF-8?
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace darkformer {

// The offset of the first byte that cannot belong to well-formed UTF-8 (Unicode 15, table 3-7: no
// overlong forms, no surrogates, nothing above U+10FFFF, nothing cut short), or npos when all is
// well.
std::size_t find_invalid_utf8(std::string_view text);

inline bool is_utf8(std::string_view text) {
  return find_invalid_utf8(text) == std::string_view::npos;
}

}  // namespace darkformer
