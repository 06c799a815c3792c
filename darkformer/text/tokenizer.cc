// The tokenizer: files in, ids out; the algorithms are tokenizer_bpe.cc and merge_list_encoder.cc.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/tokenizer.h"

#include <system_error>
#include <utility>

#include "darkformer/base/checksum.h"
#include "darkformer/base/error.h"
#include "darkformer/base/mapped_file.h"
#include "darkformer/base/printable.h"
#include "darkformer/text/merge_list_encoder.h"
#include "darkformer/text/tokenizer_bpe.h"
#include "darkformer/text/tokenizer_json.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;

bool file_exists(const fs::path& folder, const char* name) {
  std::error_code error;
  const bool there = fs::exists(folder / name, error);
  require(!error, folder.string(), ": cannot be read: ", error.message());
  return there;
}

// Pieces that text may be told not to become: those of chats and tools.
std::vector<std::string> turn_markers(const TokenizerModel& model) {
  std::vector<std::string> markers = {"<start_of_turn>", "<end_of_turn>"};
  for (const Piece& piece : model.pieces) {
    const std::string_view text = piece.text;
    if (piece.type == PieceType::kUserDefined && text.size() > 3 &&
        ((text.starts_with("<|") && text.ends_with(">")) ||
         (text.starts_with("<") && text.ends_with("|>")))) {
      markers.push_back(piece.text);
    }
  }
  return markers;
}

}  // namespace

Tokenizer Tokenizer::load(const fs::path& folder) {
  const bool has_json = file_exists(folder, "tokenizer.json");
  if (!file_exists(folder, "tokenizer.model")) {
    require(has_json, folder.string(),
            ": no tokenizer.model and no tokenizer.json; copy the model's own here");
    return load_file(folder / "tokenizer.json");
  }
  if (has_json) {
    const fs::path file = folder / "tokenizer.model";
    const MappedFile mapped(file);
    if (parse_tokenizer_model(mapped.text(), file.string()).dummy_prefix) {
      return load_file(folder / "tokenizer.json");
    }
  }
  return load_file(folder / "tokenizer.model");
}

Tokenizer Tokenizer::load_file(const fs::path& file) {
  const std::string source = file.string();
  const MappedFile mapped(file);
  const std::string_view bytes = mapped.text();
  if (file.extension() == ".json") {
    return from_document(parse_tokenizer_document(bytes, source), source, checksum(bytes),
                         [&] { return read_tokenizer_settings(file.parent_path()); });
  }
  TokenizerModel model = parse_tokenizer_model(bytes, source);
  const bool is_gemma = !model.dummy_prefix;
  return {std::move(model), source, checksum(bytes),
          is_gemma ? TokenizerSettings{} : read_tokenizer_settings(file.parent_path())};
}

Tokenizer Tokenizer::from_json(std::string_view text,
                               const std::string& source,
                               std::uint64_t fingerprint,
                               const TokenizerSettings& settings) {
  return from_document(parse_tokenizer_document(text, source), source, fingerprint,
                       [&] { return settings; });
}

// What stands beside the file is not asked for where it is a Gemma's, which says all by itself.
Tokenizer Tokenizer::from_document(TokenizerDocument document,
                                   const std::string& source,
                                   std::uint64_t fingerprint,
                                   const std::function<TokenizerSettings()>& read_settings) {
  if (is_gemma_document(document, source)) {
    TokenizerModel model = gemma_model(document, source);
    document.json = nullptr;  // as large as the file
    return {std::move(model), source, fingerprint};
  }
  const TokenizerSettings settings = read_settings();
  MergeListModel model = merge_list_model(document, source);
  document.json = nullptr;
  const auto encoder = std::make_shared<MergeListEncoder>(std::move(model));
  Tokenizer tokenizer(encoder, fingerprint);
  tokenizer.special_ =
      find_special_ids(*encoder, settings, encoder->model().bos, encoder->model().unk);
  tokenizer.find_chat(settings.chat_template, encoder->model().byte_level);
  return tokenizer;
}

Tokenizer::Tokenizer(TokenizerModel model,
                     const std::string& source,
                     std::uint64_t fingerprint,
                     const TokenizerSettings& settings)
    : fingerprint_(fingerprint) {
  const std::vector<std::string> markers = turn_markers(model);
  const auto encoder = std::make_shared<BytePairEncoder>(std::move(model), markers, source);
  encoder_ = encoder;
  const TokenizerModel& kept = encoder->model();
  special_ = {find_special(kept.bos, source), find_special(kept.eos, source), find(kept.pad),
              find(kept.unk)};
  find_chat(settings.chat_template, false);
}

std::int32_t Tokenizer::find_special(const std::string& text, const std::string& source) const {
  const std::int32_t id = find(text);
  require(id >= 0 && piece(id).type == PieceType::kControl, source, ": no control piece '",
          printable(text), "'; tokenizers of this kind have BOS and EOS");
  return id;
}

std::string Tokenizer::name_of(std::int32_t id) const {
  return id < 0 ? std::string() : piece(id).text;
}

void Tokenizer::find_chat(const std::string& chat_template, bool byte_level) {
  chat_ = ChatFormat::detect([this](std::string_view piece) { return find(piece) >= 0; },
                             chat_template, name_of(bos()), name_of(eos()), byte_level);
  end_of_turn_ = find(chat_.end_of_turn());
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> ids;
  encoder_->encode(text, {}, ids);
  return ids;
}

std::vector<std::int32_t> Tokenizer::encode_plain(std::string_view text) const {
  std::vector<std::int32_t> ids;
  encoder_->encode(text, {.markers = false}, ids);
  return ids;
}

std::vector<std::int32_t> Tokenizer::encode_more(std::string_view text) const {
  std::vector<std::int32_t> ids;
  encoder_->encode(text, {.place = TextPlace::kInside}, ids);
  return ids;
}

std::vector<std::int32_t> Tokenizer::encode_chat(std::span<const ChatTurn> turns) const {
  std::vector<std::int32_t> ids;
  TextPlace place = TextPlace::kStart;
  const std::vector<ChatPart> parts = chat_.parts(turns);
  require(end_of_turn_ >= 0, "chat: the tokenizer has no ", chat_.end_of_turn(),
          " piece; use a tokenizer with turns, or leave the chat form");
  for (const ChatPart& part : parts) {
    if (!part.is_piece) {
      encoder_->encode(part.text, {.markers = false, .place = place}, ids);
      place = TextPlace::kInside;
      continue;
    }
    const std::int32_t id = find(part.text);
    require(id >= 0, "chat: the tokenizer has no ", part.text,
            " piece; use a tokenizer with turns, or leave the chat form");
    ids.push_back(id);
    place = id == bos() ? TextPlace::kAfterBos : TextPlace::kAfterPiece;
  }
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
  return static_cast<std::int32_t>(encoder_->pieces().size());
}

std::int32_t Tokenizer::find(std::string_view piece) const {
  return encoder_->find(piece);
}

const Piece& Tokenizer::piece(std::int32_t id) const {
  require(id >= 0 && id < size(), "tokenizer: id ", id, " is not in [0, ", size(), ")");
  return encoder_->pieces()[static_cast<std::size_t>(id)];
}

}  // namespace darkformer
