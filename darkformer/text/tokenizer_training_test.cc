// The trainer against a plain one that counts all pairs anew for every merge.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/tokenizer_training.h"

#include <gtest/gtest.h>

#include <map>

#include "darkformer/base/error.h"
#include "darkformer/text/tokenizer.h"
#include "darkformer/text/tokenizer_samples.h"

namespace darkformer::tokenizer_training_test {
namespace {

constexpr std::size_t kFixed = 17 + 256;  // specials, runs, bytes

std::vector<std::string> normal_pieces(const TokenizerModel& model) {
  std::vector<std::string> texts;
  for (std::size_t id = kFixed; id < model.pieces.size(); ++id) {
    EXPECT_EQ(model.pieces[id].type, PieceType::kNormal);
    texts.push_back(model.pieces[id].text);
  }
  return texts;
}

// Merges of lower-case words divided by single spaces, by counting everything every time; pairs of
// equal counts: the one whose symbols came first (characters by frequency, then merges).
std::vector<std::string> plain_merges(const std::vector<std::string>& words,
                                      std::vector<std::string> symbols,
                                      std::size_t merges) {
  std::vector<std::vector<int>> cut;
  for (const std::string& word : words) {
    cut.emplace_back();
    for (std::size_t i = 0; i < word.size(); ++i) {
      const std::size_t length = word[i] == '\xE2' ? 3 : 1;
      const auto found = std::find(symbols.begin(), symbols.end(), word.substr(i, length));
      cut.back().push_back(static_cast<int>(found - symbols.begin()));
      i += length - 1;
    }
  }
  std::vector<std::string> made;
  while (made.size() < merges) {
    std::map<std::pair<int, int>, int> counts;
    for (const auto& word : cut) {
      for (std::size_t i = 1; i < word.size(); ++i) {
        ++counts[{word[i - 1], word[i]}];
      }
    }
    const auto best = std::max_element(counts.begin(), counts.end(), [](auto& a, auto& b) {
      return a.second < b.second;  // std::map is sorted: the first of equals stays
    });
    const auto [left, right] = best->first;
    const std::string text = symbols[left] + symbols[right];
    auto found = std::find(symbols.begin(), symbols.end(), text);
    const int joined = static_cast<int>(found - symbols.begin());
    if (found == symbols.end()) {
      symbols.push_back(text);
      made.push_back(text);
    }
    for (auto& word : cut) {
      for (std::size_t i = 0; i + 1 < word.size(); ++i) {
        if (word[i] == left && word[i + 1] == right) {
          word[i] = joined;
          word.erase(word.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        }
      }
    }
  }
  return made;
}

TEST(TokenizerTraining, JoinsWhatAPlainCountWouldJoin) {
  std::mt19937 random(11);
  std::vector<std::string> words;
  std::string text;
  for (int i = 0; i < 400; ++i) {
    std::string word;
    for (std::size_t length = 1 + random() % 7; length > 0; --length) {
      word += static_cast<char>('a' + std::min(random() % 6, random() % 6));
    }
    text += " " + word;
    words.push_back("\xE2\x96\x81" + word);
  }
  TokenizerTrainer trainer;
  trainer.add(text);
  constexpr std::size_t kMerges = 60;
  const std::size_t characters = 7;
  const auto model =
      trainer.train({.pieces = static_cast<std::int32_t>(kFixed + kMerges + characters),
                     .character_coverage = 1});
  auto pieces = normal_pieces(model);
  const std::vector<std::string> symbols(pieces.end() - characters, pieces.end());
  pieces.resize(kMerges);
  EXPECT_EQ(pieces, plain_merges(words, symbols, kMerges));
}

TEST(TokenizerTraining, DependsOnTheBagOfTextsOnly) {
  TokenizerTrainer forward;
  TokenizerTrainer backward;
  const std::vector<std::string> lines = {"one two three", "three four five", "five five one"};
  for (std::size_t i = 0; i < lines.size(); ++i) {
    forward.add(lines[i]);
    backward.add(lines[lines.size() - 1 - i]);
  }
  const TokenizerTrainingOptions options{.pieces = 295, .character_coverage = 1};
  EXPECT_EQ(serialize_tokenizer_model(forward.train(options)),
            serialize_tokenizer_model(backward.train(options)));
}

TEST(TokenizerTraining, KeepsClassesApart) {
  for (const std::string& piece : normal_pieces(sample_model())) {
    const std::string inner = piece.starts_with("\xE2\x96\x81") ? piece.substr(3) : piece;
    EXPECT_EQ(inner.find("\xE2\x96\x81"), std::string::npos) << piece;
    EXPECT_EQ(inner.find('\n'), std::string::npos);
    if (piece.size() > 1) {
      EXPECT_EQ(piece.find_first_of("0123456789"), std::string::npos) << piece;
    }
    const bool letter = inner.find_first_of("abcdefghijklmnopqrstuvwxyz") != std::string::npos;
    const bool mark = inner.find_first_of(".,;:!?\"'()[]{}") != std::string::npos;
    EXPECT_FALSE(letter && mark) << piece;
  }
}

TEST(TokenizerTraining, PiecesStayShort) {
  TokenizerTrainer trainer;
  for (int i = 0; i < 10; ++i) {
    trainer.add("abcdefghijklmnopqrstuvwxyz");
  }
  const auto model = trainer.train({.pieces = static_cast<std::int32_t>(kFixed + 26 + 8),
                                    .character_coverage = 1,
                                    .longest_piece = 5});
  for (const std::string& piece : normal_pieces(model)) {
    EXPECT_LE(piece.size(), 5U);
  }
}

TEST(TokenizerTraining, SaysWhatIsImpossible) {
  TokenizerTrainer trainer;
  EXPECT_THROW(trainer.train({}), Error);
  trainer.add("a few words, a few more words");
  EXPECT_THROW(trainer.train({.pieces = 100}), Error);
  EXPECT_THROW(trainer.train({.pieces = -5}), Error);
  EXPECT_THROW(trainer.train({.pieces = 5000}), Error);
}

}  // namespace
}  // namespace darkformer::tokenizer_training_test
