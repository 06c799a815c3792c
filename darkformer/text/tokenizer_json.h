// Hugging Face's tokenizer.json of a Gemma, read as the vocabulary that SentencePiece would have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "darkformer/text/tokenizer_document.h"
#include "darkformer/text/tokenizer_model.h"

namespace darkformer {

// Pieces and ids are the file's. Added tokens become user-defined pieces (pad, bos and eos control
// pieces), <0xHH> byte pieces, and the score of a piece is -id: Gemma's ids are in the order of its
// merges, which is checked. Error, naming `source`: not JSON, cut short, not BPE with byte
// fallback, another normalizer than Gemma's, ids with holes or twice, merges in another order than
// the ids.
TokenizerModel parse_tokenizer_json(std::string_view text, const std::string& source);
TokenizerModel gemma_model(const TokenizerDocument& document, const std::string& source);

// Does the document say of itself what Gemma's do? Others are read by merge_list_json.h.
bool is_gemma_document(const TokenizerDocument& document, const std::string& source);

}  // namespace darkformer
