// Defaults, checks and counts of Gemma configurations.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/model_config.h"

#include <algorithm>
#include <cmath>

#include "darkformer/base/error.h"

namespace darkformer {
namespace {

// Far above any model, low enough that no count below overflows 63 bits.
constexpr std::int64_t kMostVocab = std::int64_t{1} << 24;
constexpr std::int64_t kMostHidden = std::int64_t{1} << 20;
constexpr std::int64_t kMostIntermediate = std::int64_t{1} << 24;
constexpr std::int64_t kMostHeads = std::int64_t{1} << 12;
constexpr std::int64_t kMostHeadDim = std::int64_t{1} << 13;
constexpr std::int64_t kMostPositions = std::int64_t{1} << 40;

// Checks fields by the names that config.json gives them.
class FieldChecks {
 public:
  explicit FieldChecks(const std::string& source) : source_(source) {}

  void within(const char* field, std::int64_t value, std::int64_t least, std::int64_t most) const {
    require(value >= least && value <= most, source_, ": \"", field, "\" is ", value, "; wanted ",
            least, " to ", most);
  }
  void positive(const char* field, double value) const {
    require(std::isfinite(value) && value > 0, source_, ": \"", field, "\" is ", value,
            "; wanted a number above 0");
  }
  void zero_or_positive(const char* field, double value) const {
    require(std::isfinite(value) && value >= 0, source_, ": \"", field, "\" is ", value,
            "; wanted 0 or more");
  }

 private:
  const std::string& source_;
};

void check_heads(const ModelConfig& config, const FieldChecks& check, const std::string& source) {
  check.within("num_attention_heads", config.heads, 1, kMostHeads);
  check.within("num_key_value_heads", config.kv_heads, 1, config.heads);
  require(config.heads % config.kv_heads == 0, source, ": \"num_attention_heads\" is ",
          config.heads, ", no multiple of \"num_key_value_heads\", ", config.kv_heads);
  check.within("head_dim", config.head_dim, 2, kMostHeadDim);
  require(config.head_dim % 2 == 0, source, ": \"head_dim\" is ", config.head_dim,
          "; it must be even to be rotated");
}

void check_layers(const ModelConfig& config, const FieldChecks& check, const std::string& source) {
  const auto layers = static_cast<std::size_t>(config.layers);
  require(config.layer_kinds.size() == layers, source, ": \"layer_types\" has ",
          config.layer_kinds.size(), " entries for ", layers, " layers");
  require(config.attention.size() == layers, source, ": \"darkformer.layers\" has ",
          config.attention.size(), " entries for ", layers, " layers");
  const bool slides =
      std::count(config.layer_kinds.begin(), config.layer_kinds.end(), LayerKind::kSliding) > 0;
  check.within("sliding_window", config.sliding_window, slides ? 1 : 0, kMostPositions);
  for (std::size_t i = 0; i < layers; ++i) {
    check_attention_spec(config.attention[i], config.head_dim,
                         source + ": darkformer.layers[" + std::to_string(i) + "]");
  }
}

// What the older families cannot express in their config.json.
void check_family(const ModelConfig& config, const std::string& source) {
  const bool slides =
      std::count(config.layer_kinds.begin(), config.layer_kinds.end(), LayerKind::kSliding) > 0;
  if (config.family == Family::kGemma1) {
    require(!slides && config.attn_softcap == 0 && config.final_softcap == 0, source,
            ": Gemma 1 has neither sliding layers nor soft-caps");
    require(config.query_pre_attn_scalar == static_cast<double>(config.head_dim), source,
            ": \"query_pre_attn_scalar\" of Gemma 1 is its head_dim, ", config.head_dim, ", not ",
            config.query_pre_attn_scalar);
  }
  require(config.family == Family::kGemma3 || config.rope_sliding == config.rope_full, source,
          ": only Gemma 3 has a rotation of its own for sliding layers");
}

void check_ids(const ModelConfig& config, const FieldChecks& check) {
  check.within("bos_token_id", config.bos_id, 0, config.vocab_size - 1);
  check.within("pad_token_id", config.pad_id, -1, config.vocab_size - 1);
  for (const std::int64_t id : config.eos_ids) {
    check.within("eos_token_id", id, 0, config.vocab_size - 1);
  }
}

}  // namespace

double ModelConfig::query_scale() const {
  return 1.0 / std::sqrt(query_pre_attn_scalar);
}

bool ModelConfig::is_converted() const {
  return std::any_of(attention.begin(), attention.end(),
                     [](const AttentionSpec& spec) { return spec.kind != AttentionKind::kExact; });
}

std::string_view model_type_of(Family family) {
  return family == Family::kGemma1 ? "gemma" : family == Family::kGemma2 ? "gemma2" : "gemma3_text";
}

std::vector<LayerKind> default_layer_kinds(Family family,
                                           std::int64_t layers,
                                           std::int64_t pattern) {
  std::vector<LayerKind> kinds(layers, LayerKind::kFull);
  for (std::int64_t i = 0; i < layers && family != Family::kGemma1; ++i) {
    kinds[i] = (i + 1) % pattern != 0 ? LayerKind::kSliding : LayerKind::kFull;
  }
  return kinds;
}

ModelConfig default_model_config(Family family) {
  ModelConfig config;
  config.family = family;
  config.head_dim = 256;
  config.query_pre_attn_scalar = 256;
  config.vocab_size = 256000;
  config.max_positions = 8192;
  std::int64_t pattern = 1;
  if (family == Family::kGemma1) {
    config.hidden_size = 3072;
    config.intermediate_size = 24576;
    config.layers = 28;
    config.heads = 16;
    config.kv_heads = 16;
    config.architectures = {"GemmaForCausalLM"};
  } else {
    config.hidden_size = 2304;
    config.intermediate_size = 9216;
    config.layers = 26;
    config.heads = 8;
    config.kv_heads = 4;
    config.sliding_window = 4096;
    config.architectures = {"Gemma2ForCausalLM"};
    pattern = kGemma2Pattern;
  }
  if (family == Family::kGemma2) {
    config.attn_softcap = 50;
    config.final_softcap = 30;
  } else if (family == Family::kGemma3) {
    config.vocab_size = 262208;
    config.max_positions = 131072;
    config.rope_full.base = 1e6;
    config.architectures = {"Gemma3ForCausalLM"};
    pattern = kGemma3Pattern;
  }
  config.layer_kinds = default_layer_kinds(family, config.layers, pattern);
  config.attention.resize(config.layers);
  return config;
}

void check_model_config(const ModelConfig& config, const std::string& source) {
  const FieldChecks check(source);
  check.within("vocab_size", config.vocab_size, 1, kMostVocab);
  check.within("hidden_size", config.hidden_size, 1, kMostHidden);
  check.within("intermediate_size", config.intermediate_size, 1, kMostIntermediate);
  check.within("num_hidden_layers", config.layers, 1, kMostLayers);
  check_heads(config, check, source);
  check.within("max_position_embeddings", config.max_positions, 1, kMostPositions);
  check.positive("rms_norm_eps", config.rms_norm_eps);
  check.positive("query_pre_attn_scalar", config.query_pre_attn_scalar);
  check.zero_or_positive("attn_logit_softcapping", config.attn_softcap);
  check.zero_or_positive("final_logit_softcapping", config.final_softcap);
  check.positive("rope_theta", config.rope_full.base);
  check.positive("rope_scaling.factor", config.rope_full.factor);
  check.positive("rope_local_base_freq", config.rope_sliding.base);
  check.positive("rope_scaling.factor", config.rope_sliding.factor);
  check_layers(config, check, source);
  check_family(config, source);
  check_ids(config, check);
}

std::int64_t parameter_count(const ModelConfig& config) {
  const std::int64_t E = config.hidden_size;
  const std::int64_t attention = 2 * E * (config.query_width() + config.kv_width());
  const std::int64_t feed_forward = 3 * E * config.intermediate_size;
  const std::int64_t norms =
      (config.has_post_norms() ? 4 : 2) * E + (config.has_qk_norm() ? 2 * config.head_dim : 0);
  return config.vocab_size * E + E + config.layers * (attention + feed_forward + norms);
}

}  // namespace darkformer
