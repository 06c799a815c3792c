// Defaults, checks and counts of model configurations.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/model_config.h"

#include <algorithm>
#include <cmath>

#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/model/field_checks.h"
#include "darkformer/model/rope_json.h"

namespace darkformer {
namespace {

// Far above any model, low enough that no count below overflows 63 bits.
constexpr std::int64_t kMostVocab = std::int64_t{1} << 24;
constexpr std::int64_t kMostHidden = std::int64_t{1} << 20;
constexpr std::int64_t kMostIntermediate = std::int64_t{1} << 24;
constexpr std::int64_t kMostHeads = std::int64_t{1} << 12;
constexpr std::int64_t kMostHeadDim = std::int64_t{1} << 13;

void check_head_size(const char* field,
                     std::int64_t size,
                     const FieldChecks& check,
                     const std::string& source) {
  check.within(field, size, 2, kMostHeadDim);
  require(size % 2 == 0, source, ": \"", field, "\" is ", size, "; it must be even to be rotated");
}

void check_heads(const ModelConfig& config, const FieldChecks& check, const std::string& source) {
  const auto divides = [&](const char* field, std::int64_t kv_heads) {
    check.within(field, kv_heads, 1, config.heads);
    require(config.heads % kv_heads == 0, source, ": \"num_attention_heads\" is ", config.heads,
            ", no multiple of \"", field, "\", ", kv_heads);
  };
  check.within("num_attention_heads", config.heads, 1, kMostHeads);
  divides("num_key_value_heads", config.kv_heads);
  check_head_size("head_dim", config.head_dim, check, source);
  if (config.full_head_dim != 0) {
    check_head_size("global_head_dim", config.full_head_dim, check, source);
  }
  if (config.full_kv_heads != 0) {
    divides("num_global_key_value_heads", config.full_kv_heads);
  }
}

// Every sharing layer has an earlier one of its kind to share with, of the same attention.
void check_sharing(const ModelConfig& config, const FieldChecks& check, const std::string& source) {
  check.within("num_kv_shared_layers", config.shared_layers, 0, config.layers - 1);
  for (std::int64_t i = config.layers - config.shared_layers; i < config.layers; ++i) {
    const std::int64_t owner = config.key_layer(i);
    require(owner >= 0, source, ": \"num_kv_shared_layers\" is ", config.shared_layers,
            ", but before layer ", i, " there is none of its kind to share keys and values with");
    AttentionSpec own = config.attention[i];
    own.gate = config.attention[owner].gate;  // a gate is of the queries
    require(own == config.attention[owner], source, ": layers ", owner, " and ", i,
            " share keys and values, but not their attention");
  }
}

void check_layers(const ModelConfig& config, const FieldChecks& check, const std::string& source) {
  const auto layers = static_cast<std::size_t>(config.layers);
  require(config.layer_kinds.size() == layers, source, ": \"layer_types\" has ",
          count_text(config.layer_kinds.size(), "entry", "entries"), " for ",
          count_text(layers, "layer"));
  require(config.attention.size() == layers, source, ": \"darkformer.layers\" has ",
          count_text(config.attention.size(), "entry", "entries"), " for ",
          count_text(layers, "layer"));
  const bool slides =
      std::count(config.layer_kinds.begin(), config.layer_kinds.end(), LayerKind::kSliding) > 0;
  check.within("sliding_window", config.sliding_window, slides ? 1 : 0, kMostPositions);
  for (std::size_t i = 0; i < layers; ++i) {
    check_attention_spec(config.attention[i], config.head_dim_of(static_cast<std::int64_t>(i)),
                         source + ": darkformer.layers[" + std::to_string(i) + "]");
  }
  check_sharing(config, check, source);
}

// What a family cannot express in its config.json.
void check_family(const ModelConfig& config, const std::string& source) {
  const std::string_view type = config.parts().model_type;
  const bool slides =
      std::count(config.layer_kinds.begin(), config.layer_kinds.end(), LayerKind::kSliding) > 0;
  const bool gemma = config.parts().scales_embedding;
  const Family family = config.family;
  require(!slides || (family != Family::kGemma1 && family != Family::kLlama), source, ": ", type,
          " has no sliding layers");
  require((gemma && family != Family::kGemma1) ||
              (config.attn_softcap == 0 && config.final_softcap == 0),
          source, ": ", type, " has no soft-caps");
  if (family == Family::kGemma1 || !gemma) {
    require(config.query_pre_attn_scalar == static_cast<double>(config.head_dim), source,
            ": \"query_pre_attn_scalar\" of ", type, " is its head_dim, ", config.head_dim,
            ", not ", config.query_pre_attn_scalar);
  }
  require(family == Family::kGemma3 || family == Family::kGemma4 ||
              config.rope_sliding == config.rope_full,
          source, ": ", type, " has no rotation of its own for sliding layers");
  require(family == Family::kGemma4 ||
              (config.full_head_dim == 0 && config.full_kv_heads == 0 && !config.keys_are_values &&
               config.shared_layers == 0 && config.per_layer_size == 0),
          source, ": ", type, " has none of the parts that only Gemma 4 has");
}

void check_ids(const ModelConfig& config, const FieldChecks& check) {
  check.within("bos_token_id", config.bos_id, -1, config.vocab_size - 1);
  check.within("pad_token_id", config.pad_id, -1, config.vocab_size - 1);
  for (const std::int64_t id : config.eos_ids) {
    check.within("eos_token_id", id, 0, config.vocab_size - 1);
  }
}

ModelConfig default_gemma(Family family) {
  ModelConfig config;
  config.head_dim = 256;
  config.query_pre_attn_scalar = 256;
  config.vocab_size = 256000;
  config.max_positions = 8192;
  if (family == Family::kGemma1) {
    config.hidden_size = 3072;
    config.intermediate_size = 24576;
    config.layers = 28;
    config.heads = config.kv_heads = 16;
    return config;
  }
  config.hidden_size = 2304;
  config.intermediate_size = 9216;
  config.layers = 26;
  config.heads = 8;
  config.kv_heads = 4;
  config.sliding_window = 4096;
  if (family == Family::kGemma2) {
    config.attn_softcap = 50;
    config.final_softcap = 30;
    return config;
  }
  config.vocab_size = 262208;
  config.max_positions = 131072;
  config.rope_full.base = 1e6;
  if (family == Family::kGemma4) {
    config.vocab_size = config.per_layer_vocab = 262144;
    config.layers = 30;
    config.sliding_window = 512;
    config.query_pre_attn_scalar = 1;
    config.full_head_dim = 512;
    config.per_layer_size = 256;
    config.rope_full.kind = RopeKind::kProportional;
    config.rope_full.share = 0.25;
  }
  return config;
}

ModelConfig default_llama(Family family) {
  ModelConfig config;
  const bool qwen = family == Family::kQwen2 || family == Family::kQwen3;
  config.vocab_size = qwen ? 151936 : 32000;
  config.hidden_size = 4096;
  config.intermediate_size = qwen ? 22016 : family == Family::kMistral ? 14336 : 11008;
  config.layers = 32;
  config.heads = 32;
  config.kv_heads = family == Family::kMistral ? 8 : 32;
  config.head_dim = 128;
  config.query_pre_attn_scalar = 128;
  config.max_positions = qwen ? 32768 : family == Family::kMistral ? 131072 : 2048;
  config.sliding_window = family == Family::kMistral ? 4096 : 0;
  config.qkv_bias = family == Family::kQwen2;
  config.bos_id = qwen ? -1 : 1;
  config.pad_id = -1;
  config.eos_ids = qwen ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{2};
  return config;
}

std::int64_t attention_count(const ModelConfig& config, std::int64_t layer) {
  const std::int64_t E = config.hidden_size, Q = config.query_width(layer),
                     K = config.kv_width(layer), D = config.head_dim_of(layer);
  const std::int64_t own = !config.owns_keys(layer) ? 0 : config.values_are_keys(layer) ? 1 : 2;
  std::int64_t count = E * (2 * Q + own * K);
  count += config.qkv_bias ? Q + own * K : 0;
  count += config.output_bias ? E : 0;
  return count + (config.parts().qk_norm ? (own > 0 ? 2 : 1) * D : 0);
}

}  // namespace

double ModelConfig::query_scale() const {
  return 1.0 / std::sqrt(query_pre_attn_scalar);
}

bool ModelConfig::is_converted() const {
  return std::any_of(attention.begin(), attention.end(),
                     [](const AttentionSpec& spec) { return spec.kind != AttentionKind::kExact; });
}

std::int64_t ModelConfig::head_dim_of(std::int64_t layer) const {
  return !is_sliding(layer) && full_head_dim > 0 ? full_head_dim : head_dim;
}

std::int64_t ModelConfig::kv_heads_of(std::int64_t layer) const {
  return !is_sliding(layer) && full_kv_heads > 0 ? full_kv_heads : kv_heads;
}

std::int64_t ModelConfig::intermediate_of(std::int64_t layer) const {
  return wide_shared_layers && !owns_keys(layer) ? 2 * intermediate_size : intermediate_size;
}

std::int64_t ModelConfig::key_layer(std::int64_t layer) const {
  if (owns_keys(layer)) {
    return layer;
  }
  for (std::int64_t i = layers - shared_layers - 1; i >= 0; --i) {
    if (layer_kinds[i] == layer_kinds[layer]) {
      return i;
    }
  }
  return -1;
}

std::vector<std::int64_t> ModelConfig::sharers(std::int64_t layer) const {
  std::vector<std::int64_t> found;
  for (std::int64_t i = layers - shared_layers; i < layers; ++i) {
    if (key_layer(i) == layer) {
      found.push_back(i);
    }
  }
  return found;
}

std::int64_t key_group_size(const ModelConfig& config, std::int64_t layer) {
  return 1 + static_cast<std::int64_t>(config.sharers(config.key_layer(layer)).size());
}

std::vector<LayerKind> default_layer_kinds(Family family,
                                           std::int64_t layers,
                                           std::int64_t pattern) {
  std::vector<LayerKind> kinds(layers, LayerKind::kFull);
  if (family == Family::kGemma2 || family == Family::kGemma3 || family == Family::kGemma4) {
    for (std::int64_t i = 0; i < layers; ++i) {
      kinds[i] = (i + 1) % pattern != 0 ? LayerKind::kSliding : LayerKind::kFull;
    }
  }
  if (family == Family::kGemma4 && layers > 0) {
    kinds.back() = LayerKind::kFull;
  }
  return kinds;
}

std::int64_t default_pattern(Family family) {
  return family == Family::kGemma2 ? 2 : 6;
}

ModelConfig default_model_config(Family family) {
  const FamilyParts& parts = parts_of(family);
  ModelConfig config = parts.scales_embedding ? default_gemma(family) : default_llama(family);
  config.family = family;
  config.activation = parts.activation;
  config.tied_head = parts.ties_head;
  config.architectures = {std::string(parts.architecture)};
  config.layer_kinds =
      family == Family::kMistral
          ? std::vector(static_cast<std::size_t>(config.layers), LayerKind::kSliding)
          : default_layer_kinds(family, config.layers, default_pattern(family));
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
  check_rope_spec(config.rope_full, source + ": rotation of full layers");
  check_rope_spec(config.rope_sliding, source + ": rotation of sliding layers");
  check.within("hidden_size_per_layer_input", config.per_layer_size, 0, kMostHidden);
  if (config.per_layer_size > 0) {
    check.within("vocab_size_per_layer_input", config.per_layer_vocab, 1, kMostVocab);
  }
  check_layers(config, check, source);
  check_family(config, source);
  check_ids(config, check);
}

std::int64_t parameter_count(const ModelConfig& config) {
  const std::int64_t E = config.hidden_size, P = config.per_layer_size;
  std::int64_t count = (config.tied_head ? 1 : 2) * config.vocab_size * E + E;
  if (P > 0) {
    count += config.layers * P * (config.per_layer_vocab + E) + P;
  }
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::int64_t inner = config.intermediate_of(i);
    count += attention_count(config, i) + 3 * E * inner;
    count += config.mlp_bias ? 2 * inner + E : 0;
    count += (config.parts().post_norms ? 4 : 2) * E + (config.parts().layer_scalar ? 1 : 0);
    count += P > 0 ? 2 * E * P + E : 0;
  }
  return count;
}

}  // namespace darkformer
