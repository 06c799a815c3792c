// Ends a stream of text at the first of some strings, and never lets part of one through.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace darkformer {

// Text goes in piece by piece and comes out as soon as it cannot belong to a stop string. All that
// comes out, joined, is the text before the first stop string.
class StopStrings {
 public:
  // Empty strings are an Error.
  explicit StopStrings(std::vector<std::string> strings);

  std::string push(std::string_view text);
  // What was held back, when the text ends by itself.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> strings_;
  std::string pending_;
  bool stopped_ = false;
};

}  // namespace darkformer
