// darkformer logits: what a model predicts after every token of a text, as a file.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>

#include <ostream>

#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/checkpoint/model_folder.h"
#include "darkformer/checkpoint/tensor_bytes.h"
#include "darkformer/commands/command.h"
#include "darkformer/commands/model_options.h"
#include "darkformer/commands/out_place.h"
#include "darkformer/model/decoder.h"
#include "darkformer/model/nonfinite.h"

namespace darkformer {
namespace {

struct LogitsOptions {
  std::filesystem::path model;
  std::vector<std::int64_t> ids;
  std::optional<std::string> text;
  std::filesystem::path out;
  std::string embed_scale = "float32";

  void visit(auto&& field) {
    field("model", model, "model folder", {.positional = true, .required = true});
    field("ids", ids, "token ids, taken as they are: no BOS is added", {.minimum = 0});
    field("text", text, "text; BOS is put before it");
    field("out", out, "safetensors file to write: \"logits\" (T,V) float32 and \"ids\" (T) int64",
          {.required = true});
    field("embed-scale", embed_scale, kEmbedScaleHelp, kEmbedScaleTraits);
  }
};

at::Tensor ids_of(const LogitsOptions& options, const ModelConfig& config) {
  if (options.ids.empty() == !options.text.has_value()) {
    throw UsageError("give either --ids or --text");
  }
  if (!options.text) {
    return token_row(options.ids, config);
  }
  const std::optional<Tokenizer> tokenizer = find_tokenizer(options.model, config);
  return token_row(encode_with_bos(prompt_tokenizer(tokenizer, options.model), *options.text),
                   config);
}

// (T,V), a block of tokens at a time.
at::Tensor all_logits(Decoder& model, const at::Tensor& ids, const Context& context) {
  at::Tensor logits = at::empty({ids.size(1), model.config().vocab_size});
  DecoderState state;
  read_shown(model, ids, state, context, [&](const at::Tensor& hidden) {
    const std::int64_t count = hidden.size(1);
    logits.narrow(0, state.position - count, count).copy_(model.logits(hidden.squeeze(0)));
  });
  return logits;
}

bool holds_logits(const std::filesystem::path& path) {
  try {
    const SafetensorsFile file(path);
    return file.tensors().size() == 2 && file.find("logits") != nullptr &&
           file.find("ids") != nullptr;
  } catch (const Error&) {
    return false;
  }
}

void logits(const LogitsOptions& options, Context& context) {
  check_out_file(options.out, holds_logits, "logits");
  const auto model =
      load_model(options.model, {.embed_scale = embed_scale_of(options.embed_scale)});
  const at::Tensor ids = ids_of(options, model->config());
  const at::Tensor values = all_logits(*model, ids, context);
  if (!values.isfinite().all().item<bool>()) {
    fail(options.model.string(), ": some logits are not finite; ", find_nonfinite(*model).cause());
  }
  write_safetensors(options.out, {source_of("logits", values), source_of("ids", ids.squeeze(0))});
  if (context.common.json) {
    context.print_json({{"out", options.out.string()},
                        {"tokens", values.size(0)},
                        {"vocab_size", values.size(1)}});
  } else {
    context.out << options.out.string() << ": logits of " << count_text(values.size(0), "token")
                << "\n";
  }
}

}  // namespace

Command logits_command() {
  return make_command<LogitsOptions>(
      {.name = "logits",
       .summary = "Write a model's logits for every token of a text",
       .example = "darkformer logits gemma-2b --text 'The sky is' --out logits.safetensors"},
      logits);
}

}  // namespace darkformer
