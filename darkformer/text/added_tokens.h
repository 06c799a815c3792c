// Tokens that are found in the text as they are written, before anything is merged.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace darkformer {

// The flags are those of "added_tokens" in tokenizer.json.
struct AddedToken {
  std::string content;
  std::int32_t id = -1;
  bool special = false;      // decodes to nothing
  bool normalized = false;   // looked for in the normalised text
  bool lstrip = false;       // takes white space on its left with it
  bool rstrip = false;       // takes white space on its right with it
  bool single_word = false;  // not inside a word
  bool marker = false;       // plain text does not become it
};

class AddedTokens {
 public:
  AddedTokens() = default;
  // Looks for `content` of each; none is empty, all are UTF-8.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  // Cuts the text: `on_text` has each stretch between tokens (not empty), `on_token` each id, in
  // their order. From left to right, the longest first; without markers unless `with_markers`.
  void cut(std::string_view text,
           bool with_markers,
           const std::function<void(std::string_view)>& on_text,
           const std::function<void(std::int32_t)>& on_token) const;

  bool empty() const { return tokens_.empty(); }

 private:
  const AddedToken* match(std::string_view text, bool with_markers) const;

  std::vector<AddedToken> tokens_;  // sorted by content
  std::array<bool, 256> starts_{};  // is this the first byte of some token?
};

}  // namespace darkformer
