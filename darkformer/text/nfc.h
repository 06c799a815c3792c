// Unicode's normalisation form C: letters and their accents composed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace darkformer {

// The text (well-formed UTF-8) in form C. Where that is the text itself, as in nearly all text,
// `out` stays empty and the answer is `text`; otherwise it is a view of `out`. Time grows with the
// length, for long runs of accents with its logarithm as well.
std::string_view to_nfc(std::string_view text, std::string& out);

}  // namespace darkformer
