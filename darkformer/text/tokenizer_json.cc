// Gemma's tokenizer.json: pieces with scores instead of merges.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/tokenizer_json.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "darkformer/base/error.h"
#include "darkformer/base/json.h"
#include "darkformer/base/printable.h"

namespace darkformer {
namespace {

// A placeholder for images: text never makes it, and text-only models have no row for it.
constexpr std::string_view kImagePlaceholder = "<image_soft_token>";

Json gemma_normalizer() {
  return {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpace}};
}

void check_settings(const TokenizerDocument& document, const std::string& source) {
  require(find_value<bool>(document.model(), "byte_fallback", source).value_or(false), source,
          ": has no byte_fallback; Gemma's tokenizers do");
  const Json& normalizer = document_member(document.json, "normalizer", source);
  require(normalizer == gemma_normalizer(), source, ": its normalizer is ",
          printable(normalizer.dump()), "; Gemma's writes a space as U+2581 and does nothing else");
}

// Bytes are <0x00> ... <0xFF> in a row. Gemma 1 and 2 write <0x09> as a literal tab.
void mark_bytes(const PieceTable& table, std::vector<Piece>& pieces, const std::string& source) {
  const std::int64_t first = table.find(byte_piece(0));
  require(first >= 0, source, ": no byte piece <0x00>; Gemma's tokenizers have all 256");
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::int64_t id = table.find(byte_piece(byte));
    const std::int64_t in_row = first + byte;
    if (id < 0 && in_row < static_cast<std::int64_t>(pieces.size()) &&
        pieces[in_row].text == std::string(1, static_cast<char>(byte))) {
      id = in_row;
    }
    require(id >= 0, source, ": no byte piece ", byte_piece(byte));
    pieces[id].text = byte_piece(byte);
    pieces[id].type = PieceType::kByte;
  }
}

PieceType added_type(const TokenizerModel& model, const std::string& content) {
  if (content == model.unk) {
    return PieceType::kUnknown;
  }
  const bool control = content == model.pad || content == model.bos || content == model.eos ||
                       content == kImagePlaceholder;
  return control ? PieceType::kControl : PieceType::kUserDefined;
}

// The order of the merges must be the order of the ids, or -id would be the wrong score. Added
// tokens are found before anything is merged: their place does not matter.
void check_merge_order(const MergeTexts& merges,
                       const PieceTable& table,
                       const std::vector<Piece>& pieces,
                       const std::string& source) {
  std::int64_t last = -1;
  std::string_view before;
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const std::string_view text = merges.joined(i);
    if (std::exchange(before, text) == text) {
      continue;  // another way to make the same piece
    }
    const std::int64_t id = table.find(std::string(text));
    require(id >= 0, source, ": a merge makes '", printable(text), "', which is no piece");
    if (pieces[id].type != PieceType::kNormal) {
      continue;
    }
    require(id >= last, source, ": merges are not in the order of ids (at '", printable(text),
            "'); not a Gemma tokenizer: use its tokenizer.model");
    last = id;
  }
}

}  // namespace

bool is_gemma_document(const TokenizerDocument& document, const std::string& source) {
  const auto normalizer = document.json.find("normalizer");
  const auto vocab = document.model().find("vocab");
  return normalizer != document.json.end() && *normalizer == gemma_normalizer() &&
         find_value<bool>(document.model(), "byte_fallback", source).value_or(false) &&
         vocab != document.model().end() && vocab->is_object() &&
         vocab->contains("<start_of_turn>");
}

TokenizerModel gemma_model(const TokenizerDocument& document, const std::string& source) {
  check_settings(document, source);
  PieceTable table(source);
  table.place_all(document.json);
  TokenizerModel result;
  result.unk = find_value<std::string>(document.model(), "unk_token", source).value_or(result.unk);
  result.pieces = table.take();
  mark_bytes(table, result.pieces, source);
  for (const Json& token : document.json.at("added_tokens")) {
    const auto content = get_value<std::string>(token, "content", source);
    result.pieces[table.find(content)].type = added_type(result, content);
  }
  check_merge_order(document.merges, table, result.pieces, source);
  return result;
}

TokenizerModel parse_tokenizer_json(std::string_view text, const std::string& source) {
  return gemma_model(parse_tokenizer_document(text, source), source);
}

}  // namespace darkformer
