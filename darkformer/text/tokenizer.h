// Text to token ids and back, as Gemma's models expect it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "darkformer/text/tokenizer_model.h"

namespace darkformer {

class BytePairEncoder;

struct ChatTurn {
  std::string role;  // "user" or "model"
  std::string text;
};

// A tokenizer is immutable and cheap to copy (copies share the vocabulary); all functions are const
// and may be called from many threads.
class Tokenizer {
 public:
  // From a model folder: its tokenizer.model, or its tokenizer.json where there is no other. Error:
  // neither is there, or the file is cut short or not a Gemma tokenizer.
  static Tokenizer load(const std::filesystem::path& folder);
  static Tokenizer load_file(const std::filesystem::path& file);

  // `source` names the model in errors; `fingerprint` is kept as it is.
  Tokenizer(TokenizerModel model, const std::string& source, std::uint64_t fingerprint);

  // Ids of the text, without BOS. Text that spells <start_of_turn> or <end_of_turn> becomes that
  // id, as in SentencePiece and Hugging Face; encode_plain takes it as ordinary text.
  std::vector<std::int32_t> encode(std::string_view text) const;
  std::vector<std::int32_t> encode_plain(std::string_view text) const;

  // What an instruction-tuned Gemma reads, BOS first, ready for the model's answer:
  //   <bos><start_of_turn>user\n TEXT <end_of_turn>\n ... <start_of_turn>model\n
  // Each text is trimmed and taken as ordinary text: it cannot end a turn or start another one.
  // Error: a role other than user and model, or a tokenizer without the turn pieces.
  std::vector<std::int32_t> encode_chat(std::span<const ChatTurn> turns) const;

  // The text of the ids. Control ids (BOS, EOS, pad) give nothing; bytes that make no character
  // give U+FFFD. Error: an id outside [0, size()).
  std::string decode(std::span<const std::int32_t> ids) const;

  std::int32_t size() const;
  // One past the largest id that encode can give: a model needs at least so many embeddings.
  std::int32_t text_ids() const { return text_ids_; }
  std::int32_t bos() const { return bos_; }
  std::int32_t eos() const { return eos_; }
  std::int32_t pad() const { return pad_; }
  std::int32_t unk() const { return unk_; }
  // <end_of_turn>, -1 in a tokenizer without it.
  std::int32_t end_of_turn() const { return end_of_turn_; }
  // The id of a piece, -1 if there is none.
  std::int32_t find(std::string_view piece) const;
  const Piece& piece(std::int32_t id) const;
  // XXH64 of the file's bytes: which tokenizer made this shard?
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  friend class StreamDecoder;

  std::int32_t find_special(const std::string& text, const std::string& source) const;

  std::shared_ptr<const BytePairEncoder> encoder_;
  std::uint64_t fingerprint_ = 0;
  std::int32_t bos_ = -1;
  std::int32_t eos_ = -1;
  std::int32_t pad_ = -1;
  std::int32_t unk_ = -1;
  std::int32_t start_of_turn_ = -1;
  std::int32_t end_of_turn_ = -1;
  std::int32_t text_ids_ = 0;
};

// Ids in one by one, text out as soon as it is certain: each returned string is whole characters,
// and all of them joined (with finish() last) equal decode() of all ids. One object, one stream.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {}

  std::string push(std::int32_t id);
  // What was held back: bytes that never became a character, each as U+FFFD.
  std::string finish();

 private:
  std::string take_characters();

  Tokenizer tokenizer_;
  std::string pending_;  // bytes of a character that is not complete yet
};

}  // namespace darkformer
