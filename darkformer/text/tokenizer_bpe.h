// Text to ids by byte-pair encoding, step for step as SentencePiece does it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "darkformer/text/text_encoder.h"
#include "darkformer/text/tokenizer_model.h"

namespace darkformer {

// 1. Spaces become U+2581, bytes that are no UTF-8 become U+FFFD; with dummy_prefix a U+2581 comes
//    first.
// 2. User-defined pieces are found from left to right, the longest first; they stand as they are.
// 3. What lies between starts as single characters. Of all neighbours whose joined text is a piece,
//    the pair with the highest score (then the leftmost) is joined, until there is none.
// 4. A character without a piece becomes its bytes' pieces, or the unknown id.
//
// Owns the pieces; encode() is const and may run on many threads.
class BytePairEncoder final : public TextEncoder {
 public:
  // Error, naming `source`, unless the pieces make sense: texts non-empty, unique and UTF-8, one
  // unknown piece, finite scores, all 256 byte pieces with byte_fallback. `markers` are the
  // user-defined texts that encode() can be told to take as ordinary text.
  BytePairEncoder(TokenizerModel model,
                  const std::vector<std::string>& markers,
                  const std::string& source);
  BytePairEncoder(const BytePairEncoder&) = delete;
  BytePairEncoder& operator=(const BytePairEncoder&) = delete;

  void encode(std::string_view text,
              const EncodeOptions& options,
              std::vector<std::int32_t>& ids) const override;

  const TokenizerModel& model() const { return model_; }
  const std::vector<Piece>& pieces() const override { return model_.pieces; }
  std::int32_t find(std::string_view text) const override;
  PieceText piece_text(std::int32_t id) const override;
  DecodeRules decode_rules() const override;
  std::int32_t text_ids() const override;

 private:
  struct Scratch;

  void check_pieces(const std::string& source) const;
  void index_bytes(const std::string& source);
  void index_user_defined(const std::vector<std::string>& markers);
  void index_joined_spaces();

  std::int32_t match_user_defined(std::string_view text, bool with_markers) const;
  std::int32_t find_mergeable(std::string_view text) const;
  bool cut_before_space(std::string_view before) const;
  void encode_segment(std::string_view segment, Scratch& scratch) const;
  void merge_segment(std::string_view segment, Scratch& scratch) const;
  void propose(std::string_view segment, int left, int right, Scratch& scratch) const;
  void emit(std::string_view piece, Scratch& scratch) const;

  TokenizerModel model_;
  std::unordered_map<std::string_view, std::int32_t> ids_;  // views into model_.pieces
  std::vector<std::string_view> user_defined_;              // sorted
  std::array<bool, 256> starts_user_defined_{};
  std::unordered_set<std::int32_t> markers_;
  std::unordered_set<std::string> joins_space_;  // characters some piece has before an inner U+2581
  std::array<std::int32_t, 256> byte_ids_{};
  std::int32_t unk_ = -1;
  bool has_unused_ = false;
};

}  // namespace darkformer
