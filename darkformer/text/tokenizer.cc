// The tokenizer: files in, ids and text out; the merging itself is tokenizer_bpe.cc.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/tokenizer.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "darkformer/base/checksum.h"
#include "darkformer/base/error.h"
#include "darkformer/base/mapped_file.h"
#include "darkformer/base/printable.h"
#include "darkformer/text/tokenizer_bpe.h"
#include "darkformer/text/tokenizer_json.h"
#include "darkformer/text/utf8.h"

namespace darkformer {
namespace {

constexpr std::string_view kUnknown = " \xE2\x81\x87 ";  // U+2047, as SentencePiece shows it
constexpr std::string_view kStartOfTurn = "<start_of_turn>";
constexpr std::string_view kEndOfTurn = "<end_of_turn>";

std::string with_spaces(std::string_view piece) {
  std::string out;
  for (std::size_t at = piece.find(kSpace); at != std::string_view::npos; at = piece.find(kSpace)) {
    out.append(piece.substr(0, at)).append(" ");
    piece.remove_prefix(at + kSpace.size());
  }
  return out.append(piece);
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kWhite = " \t\n\v\f\r";
  const std::size_t begin = text.find_first_not_of(kWhite);
  return begin == std::string_view::npos
             ? std::string_view()
             : text.substr(begin, text.find_last_not_of(kWhite) + 1 - begin);
}

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

// One past the last id that is not a control piece.
std::int32_t count_text_ids(const std::vector<Piece>& pieces) {
  std::size_t count = pieces.size();
  while (count > 0 && pieces[count - 1].type == PieceType::kControl) {
    --count;
  }
  return static_cast<std::int32_t>(count);
}

}  // namespace

Tokenizer Tokenizer::load(const std::filesystem::path& folder) {
  for (const char* name : {"tokenizer.model", "tokenizer.json"}) {
    std::error_code error;
    const bool there = std::filesystem::exists(folder / name, error);
    require(!error, folder.string(), ": cannot be read: ", error.message());
    if (there) {
      return load_file(folder / name);
    }
  }
  fail(folder.string(), ": no tokenizer.model and no tokenizer.json; copy the model's own here");
}

Tokenizer Tokenizer::load_file(const std::filesystem::path& file) {
  const std::string source = file.string();
  const MappedFile mapped(file);
  const std::string_view bytes = mapped.text();
  TokenizerModel model = file.extension() == ".json" ? parse_tokenizer_json(bytes, source)
                                                     : parse_tokenizer_model(bytes, source);
  return {std::move(model), source, checksum(bytes)};
}

Tokenizer::Tokenizer(TokenizerModel model, const std::string& source, std::uint64_t fingerprint)
    : encoder_(std::make_shared<BytePairEncoder>(
          std::move(model),
          std::vector<std::string>{std::string(kStartOfTurn), std::string(kEndOfTurn)},
          source)),
      fingerprint_(fingerprint) {
  const TokenizerModel& kept = encoder_->model();
  bos_ = find_special(kept.bos, source);
  eos_ = find_special(kept.eos, source);
  pad_ = find(kept.pad);
  unk_ = find(kept.unk);
  start_of_turn_ = find(kStartOfTurn);
  end_of_turn_ = find(kEndOfTurn);
  text_ids_ = count_text_ids(kept.pieces);
}

std::int32_t Tokenizer::find_special(const std::string& text, const std::string& source) const {
  const std::int32_t id = find(text);
  require(id >= 0 && piece(id).type == PieceType::kControl, source, ": no control piece '",
          printable(text), "'; a Gemma tokenizer has <bos> and <eos>");
  return id;
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> ids;
  encoder_->encode(text, true, ids);
  return ids;
}

std::vector<std::int32_t> Tokenizer::encode_plain(std::string_view text) const {
  std::vector<std::int32_t> ids;
  encoder_->encode(text, false, ids);
  return ids;
}

std::vector<std::int32_t> Tokenizer::encode_chat(std::span<const ChatTurn> turns) const {
  require(start_of_turn_ >= 0 && end_of_turn_ >= 0, "chat: the tokenizer has no ",
          start_of_turn_ < 0 ? kStartOfTurn : kEndOfTurn,
          " piece; use a tokenizer with turns, or leave the chat form");
  std::vector<std::int32_t> ids{bos_};
  for (const ChatTurn& turn : turns) {
    require(turn.role == "user" || turn.role == "model", "chat: role '", turn.role,
            "' is not known; Gemma knows user and model");
    ids.push_back(start_of_turn_);
    encoder_->encode(turn.role + "\n" + std::string(trim(turn.text)), false, ids);
    ids.push_back(end_of_turn_);
    encoder_->encode("\n", false, ids);
  }
  ids.push_back(start_of_turn_);
  encoder_->encode("model\n", false, ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  StreamDecoder stream(*this);
  std::string text;
  for (const std::int32_t id : ids) {
    text += stream.push(id);
  }
  return text + stream.finish();
}

std::int32_t Tokenizer::size() const {
  return static_cast<std::int32_t>(encoder_->model().pieces.size());
}

std::int32_t Tokenizer::find(std::string_view piece) const {
  return encoder_->find(piece);
}

const Piece& Tokenizer::piece(std::int32_t id) const {
  require(id >= 0 && id < size(), "tokenizer: id ", id, " is not in [0, ", size(), ")");
  return encoder_->model().pieces[id];
}

std::string StreamDecoder::push(std::int32_t id) {
  const Piece& piece = tokenizer_.piece(id);
  switch (piece.type) {
    case PieceType::kByte:
      pending_ += static_cast<char>(tokenizer_.encoder_->byte_of(id));
      return take_characters();
    case PieceType::kControl:
      return finish();
    case PieceType::kUnknown:
      return finish().append(kUnknown);
    default:
      return finish() + with_spaces(piece.text);
  }
}

// The characters that pending_ starts with; a byte that cannot start one becomes U+FFFD.
std::string StreamDecoder::take_characters() {
  std::string out;
  while (!pending_.empty() && !may_become_character(pending_)) {
    const std::size_t length = character_length(pending_);
    out += length > 0 ? std::string_view(pending_).substr(0, length) : kReplacement;
    pending_.erase(0, std::max<std::size_t>(length, 1));
  }
  return out;
}

std::string StreamDecoder::finish() {
  std::string out;
  while (!pending_.empty()) {
    out += kReplacement;
    pending_.erase(0, 1);
    out += take_characters();
  }
  return out;
}

}  // namespace darkformer
