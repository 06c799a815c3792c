// Which pieces begin, end and fill texts, and what a model's folder says of its chats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "darkformer/text/text_encoder.h"

namespace darkformer {

// What stands beside a tokenizer.json: tokenizer_config.json, special_tokens_map.json and
// chat_template.jinja, each only where it is there.
struct TokenizerSettings {
  std::string bos;  // names of pieces; empty: not said
  std::string eos;
  std::string pad;
  std::optional<bool> add_bos;
  std::string chat_template;
};

// Error: a file that is there cannot be read, or says something else than the names of pieces.
TokenizerSettings read_tokenizer_settings(const std::filesystem::path& folder);

// -1: there is none.
struct SpecialIds {
  std::int32_t bos = -1;
  std::int32_t eos = -1;
  std::int32_t pad = -1;
  std::int32_t unk = -1;
};

// For a tokenizer.json of the general kind. `template_bos` is what its post-processor puts first.
// BOS is what Hugging Face would put before a text, and none where it puts none.
SpecialIds find_special_ids(const TextEncoder& encoder,
                            const TokenizerSettings& settings,
                            const std::string& template_bos,
                            const std::string& unk);

}  // namespace darkformer
