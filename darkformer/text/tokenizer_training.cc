// Byte-pair training: counts of neighbouring symbols kept up to date, the best pair from a heap.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/tokenizer_training.h"

#include <algorithm>
#include <queue>
#include <utility>
#include <vector>

#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/text/utf8.h"

namespace darkformer {
namespace {

constexpr int kNewlineRuns = 4;
constexpr int kSpaceRuns = 8;

enum class CharacterClass { kBreak, kSpace, kLetter, kDigit, kPunctuation };

CharacterClass class_of(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character == " " || character == kSpace) {
    return CharacterClass::kSpace;
  }
  if (first < 0x20 || first == 0x7F) {
    return CharacterClass::kBreak;
  }
  if (first >= '0' && first <= '9') {
    return CharacterClass::kDigit;
  }
  const unsigned lower = first | 0x20U;
  const bool ascii_letter = lower >= 'a' && lower <= 'z';
  // U+2000..U+206F and U+3000..U+303F: dashes, quotes, full stops of other scripts.
  const bool wide_punctuation = character.starts_with("\xE2\x80") ||
                                character.starts_with("\xE2\x81") ||
                                character.starts_with("\xE3\x80");
  return ascii_letter || (first >= 0x80 && !wide_punctuation) ? CharacterClass::kLetter
                                                              : CharacterClass::kPunctuation;
}

std::vector<std::string> characters_of(std::string_view word) {
  std::vector<std::string> characters;
  while (!word.empty()) {
    const std::size_t length = character_length(word);
    characters.emplace_back(word.substr(0, length));
    word.remove_prefix(length);
  }
  return characters;
}

using Words = std::vector<std::pair<std::string, std::int64_t>>;

// The characters that get a piece, the most frequent first.
std::vector<std::string> choose_characters(const Words& words, double coverage) {
  std::unordered_map<std::string, std::int64_t> counts;
  std::int64_t total = 0;
  for (const auto& [word, count] : words) {
    for (const std::string& character : characters_of(word)) {
      counts[character] += count;
      total += count;
    }
  }
  Words order(counts.begin(), counts.end());
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  std::vector<std::string> chosen;
  std::int64_t covered = 0;
  for (const auto& [character, count] : order) {
    const bool enough = static_cast<double>(covered) >= coverage * static_cast<double>(total);
    if (!enough || character == kSpace) {
      chosen.push_back(character);
      covered += count;
    }
  }
  return chosen;
}

// The words as symbols, and how often each pair of neighbours occurs in them.
class PairTable {
 public:
  PairTable(const Words& words, const std::vector<std::string>& characters, int longest);

  // Joins the most frequent pair everywhere. The text of the piece it made; empty when there is no
  // pair that occurs twice.
  std::string join_best();

 private:
  struct Word {
    std::vector<int> symbols;
    std::int64_t count;
  };
  struct Candidate {
    std::int64_t count;
    int left;
    int right;
    bool operator<(const Candidate& other) const {  // the largest count, then the oldest symbols
      return count != other.count ? count < other.count
             : left != other.left ? left > other.left
                                  : right > other.right;
    }
  };
  struct Pair {
    std::int64_t count = 0;
    std::vector<int> words;  // where it was seen; some may be out of date
  };

  static std::uint64_t key(int left, int right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  }
  int symbol(const std::string& text, int length);
  void add_word(const std::string& text, std::int64_t count);
  Pair* change(int left, int right, std::int64_t by, int word);
  void raise(int left, int right, std::int64_t by, int word);
  void join_in_word(int left, int right, int joined, int word);

  int longest_;
  std::vector<std::string> texts_;  // of symbols
  std::vector<int> lengths_;        // in characters
  std::unordered_map<std::string, int> symbols_;
  std::vector<Word> words_;
  std::unordered_map<std::uint64_t, Pair> pairs_;
  std::priority_queue<Candidate> best_;
};

PairTable::PairTable(const Words& words, const std::vector<std::string>& characters, int longest)
    : longest_(longest) {
  for (const std::string& character : characters) {
    symbol(character, 1);
  }
  for (const auto& [word, count] : words) {
    add_word(word, count);
  }
  for (const auto& [pair, info] : pairs_) {
    best_.push({info.count, static_cast<int>(pair >> 32), static_cast<int>(pair & 0xFFFFFFFF)});
  }
}

int PairTable::symbol(const std::string& text, int length) {
  const auto [entry, added] = symbols_.emplace(text, static_cast<int>(texts_.size()));
  if (added) {
    texts_.push_back(text);
    lengths_.push_back(length);
  }
  return entry->second;
}

// A character without a piece cuts the word in two.
void PairTable::add_word(const std::string& text, std::int64_t count) {
  Word word{{}, count};
  const auto close = [&] {
    if (word.symbols.size() > 1) {
      words_.push_back(word);
      for (std::size_t i = 1; i < word.symbols.size(); ++i) {
        change(word.symbols[i - 1], word.symbols[i], count, static_cast<int>(words_.size()) - 1);
      }
    }
    word.symbols.clear();
  };
  for (const std::string& character : characters_of(text)) {
    const auto found = symbols_.find(character);
    if (found == symbols_.end()) {
      close();
    } else {
      word.symbols.push_back(found->second);
    }
  }
  close();
}

// Null when the pair is too long to become a piece.
PairTable::Pair* PairTable::change(int left, int right, std::int64_t by, int word) {
  if (lengths_[left] + lengths_[right] > longest_) {
    return nullptr;
  }
  Pair& pair = pairs_[key(left, right)];
  pair.count += by;
  if (by > 0 && (pair.words.empty() || pair.words.back() != word)) {
    pair.words.push_back(word);
  }
  return &pair;
}

void PairTable::raise(int left, int right, std::int64_t by, int word) {
  if (const Pair* pair = change(left, right, by, word)) {
    best_.push({pair->count, left, right});
  }
}

std::string PairTable::join_best() {
  while (!best_.empty()) {
    const Candidate top = best_.top();
    best_.pop();
    const auto found = pairs_.find(key(top.left, top.right));
    if (found == pairs_.end() || top.count < 2) {
      continue;
    }
    if (found->second.count != top.count) {  // out of date: back with today's count
      best_.push({found->second.count, top.left, top.right});
      continue;
    }
    std::string text = texts_[top.left] + texts_[top.right];
    const std::size_t known = texts_.size();
    const int joined = symbol(text, lengths_[top.left] + lengths_[top.right]);
    const std::vector<int> where = std::move(found->second.words);
    pairs_.erase(found);
    for (const int word : where) {
      join_in_word(top.left, top.right, joined, word);
    }
    if (texts_.size() > known) {
      return text;
    }
  }
  return {};
}

void PairTable::join_in_word(int left, int right, int joined, int word) {
  auto& symbols = words_[word].symbols;
  const std::int64_t count = words_[word].count;
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
    if (symbols[i] != left || symbols[i + 1] != right) {
      continue;
    }
    const int before = i > 0 ? symbols[i - 1] : -1;
    const int after = i + 2 < symbols.size() ? symbols[i + 2] : -1;
    symbols[i] = joined;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    if (before >= 0) {
      change(before, left, -count, word);
      raise(before, joined, count, word);
    }
    if (after >= 0) {
      change(right, after, -count, word);
      raise(joined, after, count, word);
    }
  }
}

std::string repeat(std::string_view text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) {
    out += text;
  }
  return out;
}

std::vector<Piece> fixed_pieces() {
  std::vector<Piece> pieces = {{"<pad>", 0, PieceType::kControl},
                               {"<eos>", 0, PieceType::kControl},
                               {"<bos>", 0, PieceType::kControl},
                               {"<unk>", 0, PieceType::kUnknown},
                               {"<start_of_turn>", 0, PieceType::kUserDefined},
                               {"<end_of_turn>", 0, PieceType::kUserDefined}};
  for (int run = 1; run <= kNewlineRuns; ++run) {
    pieces.push_back({repeat("\n", run), 0, PieceType::kUserDefined});
  }
  for (int run = 2; run <= kSpaceRuns; ++run) {
    pieces.push_back({repeat(kSpace, run), 0, PieceType::kUserDefined});
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    pieces.push_back({byte_piece(byte), 0, PieceType::kByte});
  }
  return pieces;
}

}  // namespace

// A word is an optional space and then characters of one class; a digit stands alone.
void TokenizerTrainer::add(std::string_view text) {
  std::string word;
  CharacterClass word_class = CharacterClass::kBreak;
  const auto close = [&] {
    if (!word.empty()) {
      ++words_[word];
    }
    word.clear();
  };
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    const std::string_view character = text.substr(0, length);
    const auto next = length == 0 ? CharacterClass::kBreak : class_of(character);
    const bool opens_word = word_class == CharacterClass::kSpace &&
                            next != CharacterClass::kSpace && next != CharacterClass::kDigit;
    const bool goes_on = next == word_class &&
                         (next == CharacterClass::kLetter || next == CharacterClass::kPunctuation);
    if (!opens_word && !goes_on) {
      close();
    }
    if (next == CharacterClass::kBreak) {
      close();
    } else {
      word += next == CharacterClass::kSpace ? kSpace : character;
    }
    word_class = next;
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  close();
}

TokenizerModel TokenizerTrainer::train(const TokenizerTrainingOptions& options) const {
  Words words(words_.begin(), words_.end());
  std::sort(words.begin(), words.end());
  require(!words.empty(), "tokenizer training: there is no text");
  const auto characters = choose_characters(words, options.character_coverage);
  TokenizerModel model;
  model.pieces = fixed_pieces();
  const std::size_t wanted = options.pieces > 0 ? static_cast<std::size_t>(options.pieces) : 0;
  const std::size_t least = model.pieces.size() + characters.size();
  require(wanted >= least, "tokenizer training: a vocabulary of ",
          count_text(options.pieces, "piece"), " is too small; this text needs at least ", least,
          " (specials, bytes, characters)");
  PairTable table(words, characters, options.longest_piece);
  while (model.pieces.size() + characters.size() < wanted) {
    std::string text = table.join_best();
    require(!text.empty(), "tokenizer training: the text gives ",
            model.pieces.size() + characters.size(), " pieces, but ", wanted,
            " were asked for; give more text or ask for fewer");
    model.pieces.push_back({std::move(text), 0, PieceType::kNormal});
  }
  for (const std::string& character : characters) {
    model.pieces.push_back({character, 0, PieceType::kNormal});
  }
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    model.pieces[id].score = -static_cast<float>(id);
  }
  return model;
}

}  // namespace darkformer
