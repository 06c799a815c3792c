// Finds added tokens: a sorted list, narrowed by one byte of text at a time.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "darkformer/text/regex.h"
#include "darkformer/text/utf8.h"

namespace darkformer {
namespace {

std::size_t character_start(std::string_view text, std::size_t end) {
  std::size_t start = end - 1;
  while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) {
    --start;
  }
  return start;
}

bool starts_with_word(std::string_view text) {
  static const Regex word("\\A\\w", "a word");
  RegexSearch search(word);
  RegexMatch found;
  return !text.empty() && search.find(text.substr(0, character_length(text)), 0, found);
}

bool touches_word(std::string_view text, std::size_t begin, std::size_t end) {
  return starts_with_word(text.substr(end)) ||
         (begin > 0 && starts_with_word(text.substr(character_start(text, begin))));
}

std::size_t without_space_before(std::string_view text, std::size_t begin, std::size_t least) {
  while (begin > least) {
    const std::size_t start = character_start(text, begin);
    if (!is_white_space(code_point(text.substr(start)))) {
      break;
    }
    begin = start;
  }
  return begin;
}

std::size_t without_space_after(std::string_view text, std::size_t end) {
  while (end < text.size() && is_white_space(code_point(text.substr(end)))) {
    end += character_length(text.substr(end));
  }
  return end;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.content < b.content; });
  for (const AddedToken& token : tokens_) {
    starts_[static_cast<unsigned char>(token.content[0])] = true;
  }
}

// The longest token that text starts with; of a range of candidates the shortest comes first.
const AddedToken* AddedTokens::match(std::string_view text, bool with_markers) const {
  const AddedToken* longest = nullptr;
  auto begin = tokens_.begin();
  auto end = tokens_.end();
  for (std::size_t depth = 0; depth < text.size() && begin != end; ++depth) {
    const auto wanted = static_cast<unsigned char>(text[depth]);
    const auto byte_at = [depth](const AddedToken& token) {
      return depth < token.content.size() ? static_cast<unsigned char>(token.content[depth]) : -1;
    };
    begin = std::partition_point(begin, end, [&](auto& token) { return byte_at(token) < wanted; });
    end = std::partition_point(begin, end, [&](auto& token) { return byte_at(token) == wanted; });
    if (begin != end && begin->content.size() == depth + 1 && (with_markers || !begin->marker)) {
      longest = &*begin;
    }
  }
  return longest;
}

void AddedTokens::cut(std::string_view text,
                      bool with_markers,
                      const std::function<void(std::string_view)>& on_text,
                      const std::function<void(std::int32_t)>& on_token) const {
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size() && !tokens_.empty();) {
    const AddedToken* token = starts_[static_cast<unsigned char>(text[at])]
                                  ? match(text.substr(at), with_markers)
                                  : nullptr;
    if (token == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at;
    std::size_t end = at += token->content.size();
    if (token->single_word && touches_word(text, begin, end)) {
      continue;
    }
    begin = token->lstrip ? without_space_before(text, begin, done) : begin;
    end = token->rstrip ? without_space_after(text, end) : end;
    if (begin > done) {
      on_text(text.substr(done, begin - done));
    }
    on_token(token->id);
    done = end;
    at = std::max(at, end);
  }
  if (done < text.size()) {
    on_text(text.substr(done));
  }
}

}  // namespace darkformer
