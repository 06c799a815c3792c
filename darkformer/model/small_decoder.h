// Small models of every family for tests, with random weights and all the parts that a family has.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "darkformer/model/decoder.h"
#include "darkformer/model/initial_weights.h"

namespace darkformer {

inline constexpr std::int64_t kSmallWindow = 5;

// Full heads of another size than sliding ones, a last layer that shares the keys of the one before
// it, a token embedding of each layer's own.
inline void make_small_gemma4(ModelConfig& config) {
  config.query_pre_attn_scalar = 1;
  config.full_head_dim = 12;
  config.shared_layers = 1;
  config.wide_shared_layers = true;
  config.per_layer_size = 6;
  config.per_layer_vocab = config.vocab_size;
  config.final_softcap = 30;
}

inline ModelConfig small_config(Family family, std::int64_t layers = 3) {
  ModelConfig config = default_model_config(family);
  config.vocab_size = 61;
  config.hidden_size = 24;
  config.intermediate_size = 40;
  config.layers = layers;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 8;
  config.max_positions = 256;
  config.layer_kinds = default_layer_kinds(family, layers, 2);
  config.attention.assign(static_cast<std::size_t>(layers), AttentionSpec{});
  config.query_pre_attn_scalar = config.parts().post_norms ? 6 : 8;
  config.sliding_window = config.parts().post_norms ? kSmallWindow : 0;
  if (family == Family::kGemma4) {
    make_small_gemma4(config);
    config.shared_layers = layers > 2 ? 1 : 0;
  } else if (family == Family::kMistral) {
    config.layer_kinds.assign(static_cast<std::size_t>(layers), LayerKind::kSliding);
    config.sliding_window = kSmallWindow;
  } else if (family == Family::kQwen2) {
    config.layer_kinds.back() = LayerKind::kSliding;
    config.sliding_window = kSmallWindow;
    config.tied_head = true;
  } else if (family == Family::kLlama) {
    config.qkv_bias = config.output_bias = config.mlp_bias = true;
  }
  check_model_config(config, "small config");
  return config;
}

inline AttentionSpec small_dark_spec() {
  return {.kind = AttentionKind::kDark, .features = 16, .rank = 8, .window = 3, .sinks = 1};
}

// The model with this attention in a layer and in all that share its keys.
inline ModelConfig with_attention(ModelConfig config,
                                  std::int64_t layer,
                                  const AttentionSpec& spec) {
  const std::int64_t owner = config.key_layer(layer);
  config.attention[static_cast<std::size_t>(owner)] = spec;
  for (const std::int64_t sharer : config.sharers(owner)) {
    config.attention[static_cast<std::size_t>(sharer)] = spec;
  }
  return config;
}

// Weights large enough that every part of the model shows in the logits.
inline std::shared_ptr<Decoder> small_decoder(const ModelConfig& config, std::uint64_t seed = 7) {
  return std::make_shared<Decoder>(config, initial_weights(seed, 0.2, config.parts().norm_unit));
}

inline std::vector<Family> all_families() {
  std::vector<Family> families;
  for (const FamilyParts& parts : all_family_parts()) {
    families.push_back(parts.family);
  }
  return families;
}

}  // namespace darkformer
