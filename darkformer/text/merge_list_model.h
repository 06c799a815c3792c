// A tokenizer.json of the general kind as data: how text is changed, cut and merged.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "darkformer/text/added_tokens.h"
#include "darkformer/text/merge_table.h"
#include "darkformer/text/text_encoder.h"
#include "darkformer/text/text_split.h"
#include "darkformer/text/tokenizer_document.h"

namespace darkformer {

// One step of "normalizer".
struct NormalizeStep {
  enum class Kind { kNfc, kPrepend, kReplace };
  Kind kind = Kind::kNfc;
  std::string from;  // kReplace
  std::string to;    // kReplace, kPrepend: what is put in front of every text that is not empty
};

// One step of "pre_tokenizer".
struct CutStep {
  enum class Prefix { kNever, kFirst, kAlways };
  Prefix prefix = Prefix::kNever;  // of texts that do not begin with it already
  std::string prefix_text = {};
  std::string spaces_become = {};      // empty: they stay
  std::vector<TextSplit> splits = {};  // none or one
};

struct MergeListModel {
  std::vector<Piece> pieces;  // the index is the id; texts as in the file
  std::vector<AddedToken> added;
  std::vector<NormalizeStep> normalize;
  std::vector<CutStep> cut;
  MergeTable merges{0};
  bool byte_level = false;     // pieces are bytes in the alphabet of byte_alphabet.h; otherwise
                               // characters, and <0xHH> for the bytes of those without a piece
  bool ignore_merges = false;  // a word that is a piece is that piece
  bool strips_space = false;   // decoding takes one space from the start
  std::string unk;             // may be empty
  std::string bos;             // what the "post_processor" puts first; empty: nothing
};

// Error, naming `source` and what is wrong: see parse_tokenizer_document and PieceTable; steps that
// this program does not know, patterns that cannot be used, merges of pieces that are not there,
// bytes without a piece.
MergeListModel merge_list_model(const TokenizerDocument& document, const std::string& source);

}  // namespace darkformer
