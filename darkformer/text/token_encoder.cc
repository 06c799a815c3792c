// A Tokenizer as the data path sees it.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/token_encoder.h"

#include "darkformer/text/tokenizer.h"

namespace darkformer {

TokenEncoder token_encoder(const Tokenizer& tokenizer) {
  return {
      .encode = [tokenizer](std::string_view text) { return tokenizer.encode(text); },
      .bos = tokenizer.bos(),
      .eos = tokenizer.eos(),
      .vocabulary = tokenizer.size(),
      .fingerprint = tokenizer.fingerprint(),
      .encode_more = [tokenizer](std::string_view text) { return tokenizer.encode_more(text); }};
}

}  // namespace darkformer
