// Tokenizers and ids for commands.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/model_options.h"

#include <ATen/ops/tensor.h>

#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/base/log.h"
#include "darkformer/model/decoder.h"

namespace darkformer {

namespace fs = std::filesystem;

EmbedScale embed_scale_of(const std::string& choice) {
  return choice == "bf16" ? EmbedScale::kBfloat16 : EmbedScale::kFloat32;
}

Tokenizer load_tokenizer(const fs::path& folder, const ModelConfig& config) {
  Tokenizer tokenizer = Tokenizer::load(folder);
  require(tokenizer.text_ids() <= config.vocab_size, folder.string(),
          ": the tokenizer gives ids up to ", tokenizer.text_ids() - 1,
          ", but the model has embeddings for ", config.vocab_size,
          "; use the tokenizer the model was trained with");
  return tokenizer;
}

std::optional<Tokenizer> find_tokenizer(const fs::path& folder, const ModelConfig& config) {
  if (!fs::exists(folder / "tokenizer.model") && !fs::exists(folder / "tokenizer.json")) {
    return std::nullopt;
  }
  return load_tokenizer(folder, config);
}

const Tokenizer& prompt_tokenizer(const std::optional<Tokenizer>& found, const fs::path& folder) {
  require(found.has_value(), folder.string(),
          ": has neither tokenizer.model nor tokenizer.json; give the prompt as --ids");
  return *found;
}

std::vector<std::int64_t> encode_with_bos(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<std::int64_t> ids;
  if (tokenizer.bos() >= 0) {
    ids.push_back(tokenizer.bos());
  }
  const auto encoded = tokenizer.encode(text);
  ids.insert(ids.end(), encoded.begin(), encoded.end());
  return ids;
}

void read_shown(Decoder& model,
                const at::Tensor& ids,
                DecoderState& state,
                const Context& context,
                const std::function<void(const at::Tensor& hidden)>& each) {
  constexpr std::int64_t kShown = 8 * kReadBlock;  // less is read before anybody wonders
  std::optional<Progress> progress;
  if (ids.size(1) > kShown) {
    progress.emplace("reading", ids.size(1), Progress::Options{.unit = "tokens"});
  }
  read_tokens(model, ids, state, [&](const at::Tensor& hidden) {
    context.stop_if_interrupted("stopped while reading; nothing was written");
    if (each) {
      each(hidden);
    }
    if (progress) {
      progress->advance(hidden.size(1));
    }
  });
}

at::Tensor token_row(const std::vector<std::int64_t>& ids, const ModelConfig& config) {
  for (const std::int64_t id : ids) {
    require(id >= 0 && id < config.vocab_size, "token id ", id,
            " is not in the model's vocabulary of ", config.vocab_size);
  }
  return at::tensor(ids, at::kLong).unsqueeze(0);
}

void warn_of_long_windows(std::int64_t context, const ModelConfig& config) {
  if (context > config.max_positions) {
    log_warning("--context: windows of ", count_text(context, "token"), ", more than the ",
                count_text(config.max_positions, "position"),
                " this model was made for: it knows little there");
  }
}

}  // namespace darkformer
