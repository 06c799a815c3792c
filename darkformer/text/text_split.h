// Cuts text into words: one step of a tokenizer.json's "pre_tokenizer".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "darkformer/text/regex.h"

namespace darkformer {

// What becomes of the stretches that match; the names are Hugging Face's.
enum class SplitBehaviour {
  kIsolated,            // each is a word of its own
  kRemoved,             // they are left out
  kMergedWithPrevious,  // each ends the word before it
  kMergedWithNext,      // each starts the word after it
  kContiguous,          // neighbours that match are one word
};

struct TextSplit {
  std::optional<Regex> pattern = {};  // or else
  std::string literal = {};           // this text as it is, not empty
  SplitBehaviour behaviour = SplitBehaviour::kIsolated;
  bool invert = false;  // what does not match counts as the match
};

// The search of one thread with one TextSplit.
class TextSplitter {
 public:
  explicit TextSplitter(const TextSplit& split);

  // Calls `on_word` with each word of the text (well-formed UTF-8), in order; none is empty.
  void split(std::string_view text, const std::function<void(std::string_view)>& on_word);

 private:
  struct Stretch {
    std::size_t begin;
    std::size_t end;
    bool is_match;
  };
  class Words;

  bool find(std::string_view text, std::size_t from, RegexMatch& match);

  const TextSplit& split_;
  std::optional<RegexSearch> search_;
};

}  // namespace darkformer
