// Ids to text, whole characters at a time.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "darkformer/text/tokenizer.h"
#include "darkformer/text/utf8.h"

namespace darkformer {
namespace {

// Could more bytes make `bytes` a character?
bool may_become_character(std::string_view bytes) {
  const auto lead = static_cast<unsigned char>(bytes[0]);
  const std::size_t length = lead < 0xC2 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (bytes.size() >= length || lead > 0xF4) {
    return false;
  }
  return bytes.size() == 1 ||
         is_utf8(std::string(bytes) + std::string(length - bytes.size(), '\x80'));
}

}  // namespace

StreamDecoder::StreamDecoder(Tokenizer tokenizer, bool goes_on)
    : tokenizer_(std::move(tokenizer)),
      rules_(tokenizer_.encoder_->decode_rules()),
      at_start_(!goes_on) {}

std::string StreamDecoder::push(std::int32_t id) {
  using enum DecodeRules::LeadingSpace;
  const bool is_unknown = tokenizer_.piece(id).type == PieceType::kUnknown;
  PieceText piece = tokenizer_.encoder_->piece_text(id);
  if (piece.is_bytes) {
    pending_ += piece.text;
    return show(take_characters(), rules_.leading_space == kTaken);
  }
  const std::string before = piece.ends_bytes ? finish() : std::string();
  const bool takes_space =
      rules_.leading_space == kTaken || (rules_.leading_space == kTakenFromPiece && !is_unknown);
  return before + show(std::move(piece.text), takes_space);
}

std::string StreamDecoder::show(std::string text, bool takes_space) {
  if (text.empty() || !at_start_) {
    return text;
  }
  at_start_ = false;
  return takes_space && text[0] == ' ' ? text.substr(1) : text;
}

// The characters that pending_ starts with; what cannot start one becomes U+FFFD.
std::string StreamDecoder::take_characters() {
  std::string out;
  while (!pending_.empty() && !may_become_character(pending_)) {
    const std::size_t length = character_length(pending_);
    if (length > 0) {
      out.append(pending_, 0, length);
      pending_.erase(0, length);
      continue;
    }
    out += kReplacement;
    pending_.erase(0, rules_.replaces_each_byte ? 1 : broken_utf8_length(pending_));
  }
  return out;
}

std::string StreamDecoder::finish() {
  std::string out;
  while (!pending_.empty()) {
    out += kReplacement;
    pending_.erase(0, rules_.replaces_each_byte ? 1 : broken_utf8_length(pending_));
    out += take_characters();
  }
  return show(std::move(out), false);
}

}  // namespace darkformer
