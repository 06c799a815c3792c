// A tokenizer's vocabulary as data, and the file SentencePiece keeps it in (tokenizer.model).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace darkformer {

inline constexpr std::string_view kSpace = "\xE2\x96\x81";        // U+2581
inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// The numbers are SentencePiece's own.
enum class PieceType : std::uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,      // never made from text, decodes to nothing
  kUserDefined = 4,  // found in the text before anything is merged, never merged with neighbours
  kUnused = 5,       // merged through, then split again
  kByte = 6,         // "<0xHH>": one byte of a character that has no piece
};

struct Piece {
  std::string text;  // UTF-8; a space is written as U+2581
  float score = 0;   // of all possible merges the one with the highest score comes first
  PieceType type = PieceType::kNormal;
};

// Byte-pair encoding as SentencePiece does it, without normalisation of the text.
struct TokenizerModel {
  std::vector<Piece> pieces;  // the index is the id
  std::string unk = "<unk>";
  std::string bos = "<bos>";
  std::string eos = "<eos>";
  std::string pad = "<pad>";
  bool byte_fallback = true;
  bool dummy_prefix = false;  // a space is put before the text, and taken away again (Llama 2)
};

// Reads the bytes of a tokenizer.model. Error, naming `source`: cut short, no SentencePiece model,
// another algorithm than BPE, or text rules that neither Gemma nor Llama 2 uses.
TokenizerModel parse_tokenizer_model(std::string_view bytes, const std::string& source);

// The bytes of a tokenizer.model that SentencePiece and parse_tokenizer_model read back as `model`.
std::string serialize_tokenizer_model(const TokenizerModel& model);

// "<0x0A>" for 10.
std::string byte_piece(unsigned byte);

}  // namespace darkformer
