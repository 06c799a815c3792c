// Stretches that match and stretches between them, put together as the behaviour says.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/text_split.h"

#include <utility>

namespace darkformer {

// Takes the stretches in order and gives words; one is held back, because the next may join it.
class TextSplitter::Words {
 public:
  Words(std::string_view text,
        const TextSplit& split,
        const std::function<void(std::string_view)>& on_word)
      : text_(text), split_(split), on_word_(on_word) {}

  void add(Stretch next) {
    if (next.begin == next.end) {
      return;
    }
    next.is_match = next.is_match != split_.invert;
    if (split_.behaviour == SplitBehaviour::kIsolated) {
      give(next);
    } else if (split_.behaviour == SplitBehaviour::kRemoved) {
      if (!next.is_match) {
        give(next);
      }
    } else if (held_ && joins(next)) {
      held_->end = next.end;
      last_is_match_ = next.is_match;
    } else {
      finish();
      held_ = next;
      last_is_match_ = next.is_match;
    }
  }

  void finish() {
    if (held_) {
      give(*held_);
      held_.reset();
    }
  }

 private:
  void give(const Stretch& word) { on_word_(text_.substr(word.begin, word.end - word.begin)); }

  bool joins(const Stretch& next) const {
    switch (split_.behaviour) {
      case SplitBehaviour::kMergedWithPrevious:
        return next.is_match && !last_is_match_;
      case SplitBehaviour::kMergedWithNext:
        return !next.is_match && last_is_match_;
      case SplitBehaviour::kContiguous:
        return next.is_match == last_is_match_;
      default:
        return false;
    }
  }

  std::string_view text_;
  const TextSplit& split_;
  const std::function<void(std::string_view)>& on_word_;
  std::optional<Stretch> held_;
  bool last_is_match_ = false;
};

TextSplitter::TextSplitter(const TextSplit& split) : split_(split) {
  if (split.pattern) {
    search_.emplace(*split.pattern);
  }
}

bool TextSplitter::find(std::string_view text, std::size_t from, RegexMatch& match) {
  if (search_) {
    return search_->find(text, from, match);
  }
  const std::size_t found = text.find(split_.literal, from);
  match = {found, found + split_.literal.size()};
  return found != std::string_view::npos;
}

void TextSplitter::split(std::string_view text,
                         const std::function<void(std::string_view)>& on_word) {
  Words words(text, split_, on_word);
  std::size_t done = 0;
  RegexMatch match;
  while (done < text.size() && find(text, done, match)) {
    words.add({done, match.begin, false});
    words.add({match.begin, match.end, true});
    done = match.end;
  }
  words.add({done, text.size(), false});
  words.finish();
}

}  // namespace darkformer
