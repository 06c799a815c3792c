// What the data path needs to know of a tokenizer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace darkformer {

class Tokenizer;

struct TokenEncoder {
  // Ids in [0, vocabulary) of valid UTF-8 text, without BOS and EOS. Called from several threads at
  // once.
  std::function<std::vector<std::int32_t>(std::string_view)> encode;
  std::int32_t bos = 0;  // -1: documents have none
  std::int32_t eos = 0;
  std::int32_t vocabulary = 0;
  std::uint64_t fingerprint = 0;  // the same for the same tokenizer only
  // encode for text that goes on a document; where it is empty, encode does that too.
  std::function<std::vector<std::int32_t>(std::string_view)> encode_more = {};
};

// A model's own tokenizer. Text that spells a control piece (<start_of_turn>) becomes that id, as
// in SentencePiece and Hugging Face.
TokenEncoder token_encoder(const Tokenizer& tokenizer);

}  // namespace darkformer
