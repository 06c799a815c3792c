// What the commands on a model folder share: its tokenizer, its ids, its options.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "darkformer/commands/command.h"
#include "darkformer/model/decoder_state.h"
#include "darkformer/model/embedding.h"
#include "darkformer/model/model_config.h"
#include "darkformer/text/tokenizer.h"

namespace darkformer {

class Decoder;

// --embed-scale, for every command that runs a model.
inline const FieldTraits kEmbedScaleTraits = {.choices = {"float32", "bf16"}};
inline constexpr const char* kEmbedScaleHelp =
    "rounding of the embeddings' factor: none, or to bfloat16 as engines that compute in bfloat16";
EmbedScale embed_scale_of(const std::string& choice);

// The folder's tokenizer. Error: there is none, it is broken, or it has more ids than the model.
Tokenizer load_tokenizer(const std::filesystem::path& folder, const ModelConfig& config);
// Nothing where the folder has no tokenizer file at all.
std::optional<Tokenizer> find_tokenizer(const std::filesystem::path& folder,
                                        const ModelConfig& config);
// For a prompt. Error: the folder has none, so that the prompt has to be given as ids.
const Tokenizer& prompt_tokenizer(const std::optional<Tokenizer>& found,
                                  const std::filesystem::path& folder);

// Says so where windows are longer than what the model was made for: it then knows little.
void warn_of_long_windows(std::int64_t context, const ModelConfig& config);

// BOS and the ids of the text.
std::vector<std::int64_t> encode_with_bos(const Tokenizer& tokenizer, const std::string& text);

// read_tokens with a display where it takes long; Ctrl-C ends it.
void read_shown(Decoder& model,
                const at::Tensor& ids,
                DecoderState& state,
                const Context& context,
                const std::function<void(const at::Tensor& hidden)>& each = {});

// (1,T). Error where an id is not one of the model.
at::Tensor token_row(const std::vector<std::int64_t>& ids, const ModelConfig& config);

}  // namespace darkformer
