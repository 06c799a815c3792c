// darkformer pretrain: train a model from nothing.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "darkformer/base/atomic_file.h"
#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/base/log.h"
#include "darkformer/checkpoint/model_folder.h"
#include "darkformer/commands/training_options.h"
#include "darkformer/commands/training_ranks.h"
#include "darkformer/model/decoder.h"
#include "darkformer/model/initial_weights.h"
#include "darkformer/text/document_reader.h"
#include "darkformer/text/token_shard.h"
#include "darkformer/text/tokenizer_training.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;

// By the values of Family.
constexpr std::array<const char*, 8> kFamilyNames = {"gemma", "gemma2",  "gemma3", "gemma4",
                                                     "llama", "mistral", "qwen2",  "qwen3"};

struct PretrainOptions : TrainingOptions {
  std::string family = "gemma";
  std::int64_t layers = 4;
  std::int64_t hidden = 128;
  std::optional<std::int64_t> intermediate;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 1;
  std::int64_t head_dim = 32;
  std::int64_t sliding_window = 256;
  std::optional<fs::path> tokenizer;
  std::int64_t vocabulary = 4096;
  double deviation = 0.02;
  std::string attention = "exact";
  std::int64_t features = 64;
  std::optional<std::int64_t> rank;
  std::int64_t window = 0;
  std::int64_t sinks = 0;

  void visit(auto&& field) {
    visit_files(field);
    field("family", family, "architecture",
          {.choices = {kFamilyNames.begin(), kFamilyNames.end()}, .on_resume = OnResume::kFixed});
    field("layers", layers, "layers",
          {.minimum = 1, .maximum = kMostLayers, .on_resume = OnResume::kFixed});
    field("hidden", hidden, "width of the hidden states",
          {.minimum = 1, .on_resume = OnResume::kFixed});
    field("intermediate", intermediate, "width of the feed-forward part",
          {.minimum = 1, .empty_means = "four times --hidden", .on_resume = OnResume::kFixed});
    field("heads", heads, "query heads", {.minimum = 1, .on_resume = OnResume::kFixed});
    field("kv-heads", kv_heads, "key and value heads",
          {.minimum = 1, .on_resume = OnResume::kFixed});
    field("head-dim", head_dim, "size of a head", {.minimum = 2, .on_resume = OnResume::kFixed});
    field("sliding-window", sliding_window,
          "of the local layers of gemma2, gemma3, gemma4 and mistral",
          {.minimum = 1, .on_resume = OnResume::kFixed});
    field("tokenizer", tokenizer, "model folder or tokenizer.model to take the vocabulary from",
          {.empty_means = "learned from the texts"});
    field("vocabulary", vocabulary, "pieces of a learned vocabulary",
          {.minimum = 300, .on_resume = OnResume::kFixed});
    field("init-deviation", deviation, "standard deviation of the first weights",
          {.minimum = 0, .on_resume = OnResume::kFixed});
    field("attention", attention, "kind of attention of every layer",
          {.choices = {"exact", "performer", "dark", "lfk", "constant", "random"},
           .on_resume = OnResume::kFixed});
    field("features", features, "random features of each head",
          {.minimum = 1, .on_resume = OnResume::kFixed});
    field("rank", rank, "rank of the covariance",
          {.minimum = 1, .empty_means = "the head size", .on_resume = OnResume::kFixed});
    field("window", window, "nearest keys that stay exact",
          {.minimum = 0, .on_resume = OnResume::kFixed});
    field("sinks", sinks, "first keys that stay exact",
          {.minimum = 0, .on_resume = OnResume::kFixed});
    visit_steps(field);
    visit_watching(field);
    visit_scale(field);
  }
};

// The tokenizer learned from the texts.
TokenizerModel learn_tokenizer(const PretrainOptions& options, const Context& context) {
  log_info("learns a vocabulary of ", count_text(options.vocabulary, "piece"));
  TokenizerTrainer trainer;
  for (const fs::path& file : options.data) {
    require(!is_token_shard(file), file.string(),
            ": is a token shard; a vocabulary is learned from text, or give --tokenizer");
    const auto documents = open_documents(file);
    DocumentPiece piece;
    while (documents->next(piece)) {
      trainer.add(piece.text);
      context.stop_if_interrupted("stopped while the vocabulary was learned; nothing is kept");
    }
  }
  return trainer.train({.pieces = static_cast<std::int32_t>(options.vocabulary)});
}

// The folder of the run's tokenizer.model; it is made once and then stays. `is_made`: by now.
fs::path prepare_tokenizer(const PretrainOptions& options, bool is_made, const Context& context) {
  const fs::path folder = options.out / "tokenizer";
  if (is_made && fs::exists(folder / "tokenizer.model")) {
    return folder;
  }
  if (options.tokenizer && fs::is_directory(*options.tokenizer)) {
    return *options.tokenizer;
  }
  if (options.tokenizer) {
    fs::create_directories(folder);
    fs::copy_file(*options.tokenizer, folder / "tokenizer.model",
                  fs::copy_options::overwrite_existing);
  } else {
    write_file_atomically(folder / "tokenizer.model",
                          serialize_tokenizer_model(learn_tokenizer(options, context)));
  }
  return folder;
}

Family family_of(const std::string& name) {
  const auto found = std::find(kFamilyNames.begin(), kFamilyNames.end(), name);
  return static_cast<Family>(found - kFamilyNames.begin());  // one of the choices
}

// What only Gemma 4 has, in small: each layer's own embedding of the token, and a last third of
// layers that share keys where there is an earlier layer of each kind.
void add_gemma4_parts(ModelConfig& config) {
  constexpr std::int64_t kOwnShare = 8, kSharedShare = 3;
  config.query_pre_attn_scalar = 1;
  config.full_head_dim = config.head_dim;
  config.per_layer_size = std::max<std::int64_t>(1, config.hidden_size / kOwnShare);
  config.per_layer_vocab = config.vocab_size;
  config.wide_shared_layers = true;
  for (config.shared_layers = config.layers / kSharedShare; config.shared_layers > 0;
       --config.shared_layers) {
    if (config.key_layer(config.layers - 1) >= 0 &&
        config.key_layer(config.layers - config.shared_layers) >= 0) {
      return;
    }
  }
}

AttentionSpec attention_of(const PretrainOptions& options) {
  const AttentionKind kind = *find_attention_kind(options.attention);  // one of the choices
  AttentionSpec spec{.kind = kind};
  if (has_features(kind)) {
    spec.features = options.features;
    spec.rank = options.rank.value_or(options.head_dim);
    spec.window = options.window;
    spec.sinks = options.sinks;
  }
  return spec;
}

ModelConfig config_of(const PretrainOptions& options, std::int64_t vocabulary, std::uint64_t seed) {
  const Family family = family_of(options.family);
  ModelConfig config = default_model_config(family);
  config.vocab_size = vocabulary;
  config.hidden_size = options.hidden;
  config.intermediate_size = options.intermediate.value_or(4 * options.hidden);
  config.layers = options.layers;
  config.heads = options.heads;
  config.kv_heads = options.kv_heads;
  config.head_dim = options.head_dim;
  config.max_positions = std::max<std::int64_t>(options.context, 8192);
  config.query_pre_attn_scalar = static_cast<double>(options.head_dim);
  const bool slides = config.parts().post_norms || family == Family::kMistral;
  config.sliding_window = slides ? options.sliding_window : 0;
  // A small Gemma 4 of every second layer full has both kinds to share.
  const std::int64_t pattern = family == Family::kGemma4 ? 2 : default_pattern(family);
  config.layer_kinds = default_layer_kinds(family, options.layers, pattern);
  if (family == Family::kMistral) {
    config.layer_kinds.assign(static_cast<std::size_t>(options.layers), LayerKind::kSliding);
  }
  config.tied_head = true;  // small models are mostly vocabulary
  config.attention.assign(static_cast<std::size_t>(options.layers), attention_of(options));
  if (family == Family::kGemma4) {
    add_gemma4_parts(config);
  }
  config.seed = seed;
  check_model_config(config, "the model asked for");
  return config;
}

ModelConfig config_of(const PretrainOptions& options,
                      const Tokenizer& tokenizer,
                      std::uint64_t seed) {
  ModelConfig config = config_of(options, tokenizer.size(), seed);
  config.bos_id = tokenizer.bos() >= 0 ? tokenizer.bos() : tokenizer.eos();
  config.pad_id = std::max(tokenizer.pad(), 0);
  config.eos_ids = {tokenizer.eos()};
  check_model_config(config, "the model asked for");
  return config;
}

void pretrain(const PretrainOptions& options, Context& context) {
  check_training_options(options, context);
  const auto seed = static_cast<std::uint64_t>(context.common.seed);
  if (!options.tokenizer) {  // a model that cannot be is refused before its vocabulary is learned
    check_memory(options,
                 planned_run(options, {.config = config_of(options, options.vocabulary, seed),
                                       .from_folder = false}));
  }
  const auto ranks = enter_ranks(options, context);
  if (!ranks) {
    return;
  }
  fs::path folder;
  after_the_first(*ranks, [&] {
    const bool is_made = options.resume || (*ranks && !(*ranks)->is_first());
    folder = prepare_tokenizer(options, is_made, context);
  });
  const Tokenizer tokenizer = Tokenizer::load(folder);
  const auto load = [&](const Checkpoint* start) {
    return start != nullptr
               ? load_model(start->folder, {.trains = [](const std::string&) { return true; }})
               : std::make_shared<Decoder>(
                     config_of(options, tokenizer, seed),
                     initial_weights(seed, options.deviation,
                                     parts_of(family_of(options.family)).norm_unit));
  };
  PreparedRun run{tokenizer, folder, load, nullptr, {}, *ranks};
  run.planned = PlannedRun{.config = config_of(options, tokenizer, seed), .from_folder = false};
  train(options, run, context);
}

}  // namespace

Command pretrain_command() {
  return make_command<PretrainOptions>(
      {.name = "pretrain",
       .summary = "Train a small model from nothing",
       .example = "darkformer pretrain --data speeches.txt --layers 4 --hidden 128 --steps 2000 "
                  "--lr 1e-3 --out tiny\n"
                  "darkformer pretrain --config tiny/run.toml --resume",
       .details = "A model of any family and of any kind of attention, with its own vocabulary "
                  "learned from the texts, or that of another model. Otherwise as finetune.",
       .config = true},
      pretrain);
}

}  // namespace darkformer
