// Text to token ids and back, as a model's own tokenizer does it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "darkformer/text/chat_format.h"
#include "darkformer/text/special_ids.h"
#include "darkformer/text/text_encoder.h"
#include "darkformer/text/tokenizer_model.h"

namespace darkformer {

struct TokenizerDocument;

// A tokenizer is immutable and cheap to copy (copies share the vocabulary); all functions are const
// and may be called from many threads.
class Tokenizer {
 public:
  // From a model folder: its tokenizer.model, or its tokenizer.json where there is no other or the
  // model file is not Gemma's (those of Llama and Mistral lack the pieces that were added later).
  // Names of special pieces and the chat form also come from tokenizer_config.json,
  // special_tokens_map.json and chat_template.jinja beside a file that is not Gemma's. Error: no
  // file is there, or it is cut short or of a kind that is not known.
  static Tokenizer load(const std::filesystem::path& folder);
  static Tokenizer load_file(const std::filesystem::path& file);
  // A tokenizer.json from memory; `source` names it in errors.
  static Tokenizer from_json(std::string_view text,
                             const std::string& source,
                             std::uint64_t fingerprint,
                             const TokenizerSettings& settings = {});

  // `source` names the model in errors; `fingerprint` is kept as it is.
  Tokenizer(TokenizerModel model,
            const std::string& source,
            std::uint64_t fingerprint,
            const TokenizerSettings& settings = {});

  // Ids of the text, without BOS. Text that spells a control piece (<start_of_turn>, <|eot_id|>)
  // becomes that id, as in SentencePiece (user-defined pieces) and Hugging Face (added tokens);
  // encode_plain takes it as ordinary text. encode_more: text that goes on one that was cut,
  // without the space that some families put before a text.
  std::vector<std::int32_t> encode(std::string_view text) const;
  std::vector<std::int32_t> encode_plain(std::string_view text) const;
  std::vector<std::int32_t> encode_more(std::string_view text) const;

  // What a model that was tuned for chats reads, ready for its answer. A Gemma:
  //   <bos><start_of_turn>user\n TEXT <end_of_turn>\n ... <start_of_turn>model\n
  // Texts are taken as ordinary text: they cannot end a turn or start another one. Error: a role
  // that the model does not know, or a tokenizer without a chat form.
  std::vector<std::int32_t> encode_chat(std::span<const ChatTurn> turns) const;

  // The text of the ids. Control ids (BOS, EOS, pad; in a general tokenizer.json all "special"
  // tokens) give nothing; bytes that make no character give U+FFFD. The space that encode() put
  // before a text is taken away. Error: an id outside [0, size()).
  std::string decode(std::span<const std::int32_t> ids) const;

  std::int32_t size() const;
  // One past the largest id that encode can give: a model needs at least so many embeddings.
  std::int32_t text_ids() const { return encoder_->text_ids(); }
  // Each is -1 in a tokenizer without it: Qwen puts no BOS before a text.
  std::int32_t bos() const { return special_.bos; }
  std::int32_t eos() const { return special_.eos; }
  std::int32_t pad() const { return special_.pad; }
  std::int32_t unk() const { return special_.unk; }
  // What ends an answer in a chat, -1 in a tokenizer without a chat form.
  std::int32_t end_of_turn() const { return end_of_turn_; }
  // The id of a piece, -1 if there is none.
  std::int32_t find(std::string_view piece) const;
  const Piece& piece(std::int32_t id) const;
  // XXH64 of the file's bytes: which tokenizer made this shard?
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  friend class StreamDecoder;

  Tokenizer(std::shared_ptr<const TextEncoder> encoder, std::uint64_t fingerprint)
      : encoder_(std::move(encoder)), fingerprint_(fingerprint) {}

  static Tokenizer from_document(TokenizerDocument document,
                                 const std::string& source,
                                 std::uint64_t fingerprint,
                                 const std::function<TokenizerSettings()>& read_settings);
  std::int32_t find_special(const std::string& text, const std::string& source) const;
  void find_chat(const std::string& chat_template, bool byte_level);
  std::string name_of(std::int32_t id) const;

  std::shared_ptr<const TextEncoder> encoder_;
  std::uint64_t fingerprint_ = 0;
  SpecialIds special_;
  ChatFormat chat_;
  std::int32_t end_of_turn_ = -1;
};

// Ids in one by one, text out as soon as it is certain: each returned string is whole characters,
// and all of them joined (with finish() last) equal decode() of all ids. One object, one stream.
class StreamDecoder {
 public:
  // `goes_on`: the ids go on a text whose start others have decoded, so that a space at their own
  // start belongs to the text.
  explicit StreamDecoder(Tokenizer tokenizer, bool goes_on = false);

  std::string push(std::int32_t id);
  // What was held back: bytes that never became a character, as U+FFFD.
  std::string finish();

 private:
  std::string take_characters();
  // The text without the space that encode() put first, where it is the first of all.
  std::string show(std::string text, bool takes_space);

  Tokenizer tokenizer_;
  DecodeRules rules_;
  bool at_start_ = true;
  std::string pending_;  // bytes of a character that is not complete yet
};

}  // namespace darkformer
