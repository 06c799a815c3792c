// Learns a small Gemma-like vocabulary from text, for models trained from scratch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "darkformer/text/tokenizer_model.h"

namespace darkformer {

struct TokenizerTrainingOptions {
  std::int32_t pieces = 4096;          // of all kinds
  double character_coverage = 0.9995;  // rarer characters are left to the byte pieces
  std::int32_t longest_piece = 16;     // in characters
};

// Byte-pair encoding: the most frequent pair of neighbours becomes a piece, again and again. Pieces
// begin at most with a space, hold letters or punctuation but not both, and no two digits. Ids:
//   0 <pad>, 1 <eos>, 2 <bos>, 3 <unk>, 4 <start_of_turn>, 5 <end_of_turn>, runs of newlines and
//   spaces, 256 bytes, merges in their order, single characters by frequency; score = -id.
// The result depends on the options and the bag of added texts only. Not thread-safe.
class TokenizerTrainer {
 public:
  // Counts the words of one text (a document or a line); nothing else of it is kept.
  void add(std::string_view text);

  // Error: too few pieces for what must be there, or too little text for so many.
  TokenizerModel train(const TokenizerTrainingOptions& options) const;

 private:
  std::unordered_map<std::string, std::int64_t> words_;  // a word, spaces as U+2581 -> how often
};

}  // namespace darkformer
