// tokenizer.model is one protocol-buffer message; the few fields we need are read and written here.
// SPDX-License-Identifier: Apache-2.0
//
// By hand, because libsentencepiece exports its own old copy of protobuf: a process that also loads
// libtorch (which needs the system's protobuf) dies before main. docs/decisions has the story.
#include "darkformer/text/tokenizer_model.h"

#include <bit>

#include "darkformer/base/error.h"
#include "darkformer/base/printable.h"

namespace darkformer {
namespace {

// Field numbers of sentencepiece_model.proto.
constexpr unsigned kModelPieces = 1, kModelTrainer = 2, kModelNormalizer = 3;
constexpr unsigned kModelDenormalizer = 5;
constexpr unsigned kPieceText = 1, kPieceScore = 2, kPieceType = 3;
constexpr unsigned kTrainerModelType = 3, kTrainerVocabSize = 4, kTrainerSpaceAsSuffix = 24;
constexpr unsigned kTrainerByteFallback = 35, kTrainerUnkId = 40, kTrainerBosId = 41;
constexpr unsigned kTrainerEosId = 42, kTrainerPadId = 43, kTrainerUnk = 45, kTrainerBos = 46;
constexpr unsigned kTrainerEos = 47, kTrainerPad = 48;
constexpr unsigned kNormalizerName = 1, kNormalizerTable = 2, kNormalizerPrefix = 3;
constexpr unsigned kNormalizerTrim = 4, kNormalizerEscape = 5;

constexpr std::uint64_t kModelTypeBpe = 2;
constexpr std::size_t kMostPieces = std::size_t{1} << 24;  // ids stay exact as float scores

enum WireType : unsigned { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

// Walks the fields of one message; every read is checked against the end of the bytes.
class WireReader {
 public:
  WireReader(std::string_view bytes, const std::string& source) : rest_(bytes), source_(source) {}

  bool next() {
    if (rest_.empty()) {
      return false;
    }
    const std::uint64_t tag = take_varint();
    field_ = static_cast<unsigned>(tag >> 3);
    type_ = static_cast<unsigned>(tag & 7);
    read_value();
    return true;
  }
  unsigned field() const { return field_; }

  std::uint64_t number() const {
    check(type_ == kVarint);
    return number_;
  }
  bool flag() const { return number() != 0; }
  std::string_view bytes() const {
    check(type_ == kLength);
    return bytes_;
  }
  float real() const {
    check(type_ == kFixed32);
    std::uint32_t bits = 0;
    for (std::size_t i = 4; i-- > 0;) {
      bits = bits << 8 | static_cast<unsigned char>(bytes_[i]);
    }
    return std::bit_cast<float>(bits);
  }

 private:
  void check(bool condition) const {
    require(condition, source_, ": cut short, or not a SentencePiece model");
  }
  std::uint64_t take_varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) {
        return value;
      }
    }
    check(false);
    return 0;
  }
  std::string_view take(std::uint64_t count) {
    check(count <= rest_.size());
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  void read_value() {
    switch (type_) {
      case kVarint:
        number_ = take_varint();
        return;
      case kFixed64:
        bytes_ = take(8);
        return;
      case kLength:
        bytes_ = take(take_varint());
        return;
      case kFixed32:
        bytes_ = take(4);
        return;
      default:
        check(false);
    }
  }

  std::string_view rest_;
  const std::string& source_;
  unsigned field_ = 0;
  unsigned type_ = 0;
  std::uint64_t number_ = 0;
  std::string_view bytes_;
};

Piece read_piece(std::string_view bytes, const std::string& source) {
  Piece piece;
  WireReader reader(bytes, source);
  while (reader.next()) {
    if (reader.field() == kPieceText) {
      piece.text = reader.bytes();
    } else if (reader.field() == kPieceScore) {
      piece.score = reader.real();
    } else if (reader.field() == kPieceType) {
      const std::uint64_t type = reader.number();
      require(type >= 1 && type <= 6, source, ": piece '", printable(piece.text),
              "' has unknown type ", type);
      piece.type = static_cast<PieceType>(type);
    }
  }
  return piece;
}

void read_trainer(std::string_view bytes, const std::string& source, TokenizerModel& model) {
  std::uint64_t model_type = 1;
  WireReader reader(bytes, source);
  while (reader.next()) {
    switch (reader.field()) {
      case kTrainerModelType:
        model_type = reader.number();
        break;
      case kTrainerByteFallback:
        model.byte_fallback = reader.flag();
        break;
      case kTrainerSpaceAsSuffix:
        require(!reader.flag(), source,
                ": puts spaces at the end of pieces; the tokenizers of Gemma and Llama do not");
        break;
      case kTrainerUnk:
        model.unk = reader.bytes();
        break;
      case kTrainerBos:
        model.bos = reader.bytes();
        break;
      case kTrainerEos:
        model.eos = reader.bytes();
        break;
      case kTrainerPad:
        model.pad = reader.bytes();
        break;
      default:
        break;
    }
  }
  require(model_type == kModelTypeBpe, source,
          ": not a byte-pair (BPE) model (SentencePiece model type ", model_type,
          "); the tokenizers of Gemma and Llama are");
}

// The files we know leave the text as it is but for spaces, which become U+2581, and one in front.
void read_normalizer(std::string_view bytes, const std::string& source, TokenizerModel& model) {
  bool trim = true;
  bool escape = true;
  bool table = false;
  model.dummy_prefix = true;  // what the format says when nothing is said
  WireReader reader(bytes, source);
  while (reader.next()) {
    if (reader.field() == kNormalizerTable) {
      table = !reader.bytes().empty();
    } else if (reader.field() == kNormalizerPrefix) {
      model.dummy_prefix = reader.flag();
    } else if (reader.field() == kNormalizerTrim) {
      trim = reader.flag();
    } else if (reader.field() == kNormalizerEscape) {
      escape = reader.flag();
    }
  }
  require(!table && !trim && escape, source, ": changes the text before it is cut (",
          table  ? "normalization table"
          : trim ? "remove_extra_whitespaces"
                 : "no escape_whitespaces",
          "); the tokenizers of Gemma, Llama 2 and Mistral do not");
}

void check_denormalizer(std::string_view bytes, const std::string& source) {
  WireReader reader(bytes, source);
  while (reader.next()) {
    require(reader.field() != kNormalizerTable || reader.bytes().empty(), source,
            ": has a denormalization table, which this program does not read");
  }
}

class WireWriter {
 public:
  void number(unsigned field, std::uint64_t value) {
    varint(field << 3 | kVarint);
    varint(value);
  }
  void bytes(unsigned field, std::string_view value) {
    varint(field << 3 | kLength);
    varint(value.size());
    out_ += value;
  }
  void real(unsigned field, float value) {
    varint(field << 3 | kFixed32);
    auto bits = std::bit_cast<std::uint32_t>(value);
    for (int i = 0; i < 4; ++i, bits >>= 8) {
      out_ += static_cast<char>(bits & 0xFF);
    }
  }
  const std::string& out() const { return out_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) {
      out_ += static_cast<char>(value | 0x80);
    }
    out_ += static_cast<char>(value);
  }

  std::string out_;
};

std::string write_piece(const Piece& piece) {
  WireWriter out;
  out.bytes(kPieceText, piece.text);
  out.real(kPieceScore, piece.score);
  out.number(kPieceType, static_cast<std::uint64_t>(piece.type));
  return out.out();
}

std::string write_trainer(const TokenizerModel& model) {
  WireWriter out;
  out.number(kTrainerModelType, kModelTypeBpe);
  out.number(kTrainerVocabSize, model.pieces.size());
  out.number(kTrainerByteFallback, model.byte_fallback ? 1 : 0);
  // Negative ids are ten-byte varints: "there is none".
  const auto id = [&](unsigned field, const std::string& text) {
    std::int64_t found = -1;
    for (std::size_t i = 0; i < model.pieces.size() && found < 0; ++i) {
      found = model.pieces[i].text == text ? static_cast<std::int64_t>(i) : -1;
    }
    out.number(field, static_cast<std::uint64_t>(found));
  };
  id(kTrainerUnkId, model.unk);
  id(kTrainerBosId, model.bos);
  id(kTrainerEosId, model.eos);
  id(kTrainerPadId, model.pad);
  out.bytes(kTrainerUnk, model.unk);
  out.bytes(kTrainerBos, model.bos);
  out.bytes(kTrainerEos, model.eos);
  out.bytes(kTrainerPad, model.pad);
  return out.out();
}

std::string write_normalizer(const TokenizerModel& model) {
  WireWriter out;
  out.bytes(kNormalizerName, "identity");
  out.bytes(kNormalizerTable, "");
  out.number(kNormalizerPrefix, model.dummy_prefix ? 1 : 0);
  out.number(kNormalizerTrim, 0);
  out.number(kNormalizerEscape, 1);
  return out.out();
}

}  // namespace

TokenizerModel parse_tokenizer_model(std::string_view bytes, const std::string& source) {
  require(!bytes.empty(), source, ": is empty; wanted a SentencePiece model");
  TokenizerModel model;
  model.bos = "<s>";  // what the format says when nothing is said
  model.eos = "</s>";
  model.byte_fallback = false;
  std::string_view trainer;
  std::string_view normalizer;
  WireReader reader(bytes, source);
  while (reader.next()) {
    if (reader.field() == kModelPieces) {
      model.pieces.push_back(read_piece(reader.bytes(), source));
      require(model.pieces.size() <= kMostPieces, source, ": more than ", kMostPieces, " pieces");
    } else if (reader.field() == kModelTrainer) {
      trainer = reader.bytes();
    } else if (reader.field() == kModelNormalizer) {
      normalizer = reader.bytes();
    } else if (reader.field() == kModelDenormalizer) {
      check_denormalizer(reader.bytes(), source);
    }
  }
  require(!model.pieces.empty() && !trainer.empty() && !normalizer.empty(), source,
          ": its settings are missing; cut short, or not a SentencePiece model");
  read_trainer(trainer, source, model);
  read_normalizer(normalizer, source, model);
  return model;
}

std::string serialize_tokenizer_model(const TokenizerModel& model) {
  WireWriter out;
  for (const Piece& piece : model.pieces) {
    out.bytes(kModelPieces, write_piece(piece));
  }
  out.bytes(kModelTrainer, write_trainer(model));
  out.bytes(kModelNormalizer, write_normalizer(model));
  return out.out();
}

std::string byte_piece(unsigned byte) {
  constexpr const char* kDigits = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[byte >> 4 & 15], kDigits[byte & 15], '>'};
}

}  // namespace darkformer
