// Text to ids as Hugging Face's library does it with a tokenizer.json of the general kind.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "darkformer/text/merge_list_model.h"
#include "darkformer/text/text_encoder.h"

namespace darkformer {

// 1. Bytes that are no UTF-8 become U+FFFD.
// 2. Added tokens are found in the text as it is; what lies between is normalised, and the added
//    tokens that want it so are found then.
// 3. What lies between those is cut into words.
// 4. A word starts as bytes (byte_level) or as characters, one without a piece as its bytes, and is
//    merged by the list.
class MergeListEncoder final : public TextEncoder {
 public:
  explicit MergeListEncoder(MergeListModel model);
  MergeListEncoder(const MergeListEncoder&) = delete;
  MergeListEncoder& operator=(const MergeListEncoder&) = delete;

  void encode(std::string_view text,
              const EncodeOptions& options,
              std::vector<std::int32_t>& ids) const override;
  const std::vector<Piece>& pieces() const override { return model_.pieces; }
  std::int32_t find(std::string_view piece) const override;
  PieceText piece_text(std::int32_t id) const override;
  DecodeRules decode_rules() const override;
  std::int32_t text_ids() const override { return static_cast<std::int32_t>(model_.pieces.size()); }
  const MergeListModel& model() const { return model_; }

 private:
  class Run;

  void index_symbols();
  void index_joined_spaces();
  std::string_view normalize(std::string_view text, bool may_prepend, std::string& out) const;
  bool cut_before_space(std::string_view before) const;
  void append_symbols(std::string_view word, std::vector<std::int32_t>& symbols) const;

  MergeListModel model_;
  AddedTokens raw_added_;
  AddedTokens normalized_added_;
  std::vector<std::string> texts_;                            // what ids decode to, bytes
  std::unordered_map<std::string_view, std::int32_t> ids_;    // by the file's spelling
  std::unordered_map<std::string_view, std::int32_t> words_;  // by texts_, with ignore_merges
  std::array<std::int32_t, 256> byte_ids_{};
  std::unordered_map<std::string_view, std::int32_t> characters_;
  std::array<std::int32_t, 128> ascii_{};        // the same for ASCII, -1: none
  std::unordered_set<std::string> joins_space_;  // characters some piece has before an inner U+2581
};

}  // namespace darkformer
