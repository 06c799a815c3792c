// What every algorithm behind Tokenizer can do: text to ids, and what each id adds to a text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "darkformer/text/tokenizer_model.h"

namespace darkformer {

// Where a stretch of text stands; vocabularies that begin a text with a space care.
enum class TextPlace {
  kStart,       // a text of its own
  kAfterBos,    // of a chat, behind nothing but BOS
  kAfterPiece,  // of a chat, behind a control piece
  kInside,      // goes on a text that was cut
};

struct EncodeOptions {
  bool markers = true;  // may text become the control pieces of chats?
  TextPlace place = TextPlace::kStart;
};

// What an id adds to a text: characters, or bytes that make characters with those of others.
struct PieceText {
  std::string text = {};
  bool is_bytes = false;
  bool ends_bytes = true;  // bytes before it that make no character will never make one
};

struct DecodeRules {
  enum class LeadingSpace { kKept, kTakenFromPiece, kTaken };
  // One space at the start of a text was put there by encode().
  LeadingSpace leading_space = LeadingSpace::kKept;
  // U+FFFD for each byte that makes no character, or for each broken start of a character.
  bool replaces_each_byte = true;
};

// Immutable; all functions may be called from many threads.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;

  // Appends to ids.
  virtual void encode(std::string_view text,
                      const EncodeOptions& options,
                      std::vector<std::int32_t>& ids) const = 0;
  virtual const std::vector<Piece>& pieces() const = 0;
  // The id of a piece, -1 if there is none.
  virtual std::int32_t find(std::string_view piece) const = 0;
  virtual PieceText piece_text(std::int32_t id) const = 0;
  virtual DecodeRules decode_rules() const = 0;
  // One past the largest id that encode can give.
  virtual std::int32_t text_ids() const = 0;
};

}  // namespace darkformer
