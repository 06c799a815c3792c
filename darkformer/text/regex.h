// Patterns with Unicode classes over UTF-8, as tokenizer files use them to cut text into words.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace darkformer {

// A compiled pattern; immutable, cheap to copy, may be used on many threads.
//
// The patterns are written for Oniguruma and compiled by PCRE2, with Unicode's idea of a character.
// Where the two read the same letters differently the pattern is rewritten (\s, \w) or refused.
class Regex {
 public:
  // Error, naming `source`: the pattern is too long, does not compile, or uses what we refuse.
  Regex(const std::string& pattern, const std::string& source);

 private:
  friend class RegexSearch;
  struct Code;
  std::shared_ptr<const Code> code_;
};

struct RegexMatch {
  std::size_t begin = 0;
  std::size_t end = 0;
};

// The memory that one thread needs to search with a pattern.
class RegexSearch {
 public:
  explicit RegexSearch(const Regex& regex);
  RegexSearch(RegexSearch&&) noexcept;
  ~RegexSearch();

  // The first match in `text` (well-formed UTF-8) that begins at or after `from` and is not empty;
  // what stands before `from` is seen by assertions. False: there is none. Error: the search takes
  // more steps than any published pattern needs.
  bool find(std::string_view text, std::size_t from, RegexMatch& match);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace darkformer
