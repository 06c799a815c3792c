// Small models of every family for tests, with random weights and both kinds of layers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "darkformer/model/decoder.h"
#include "darkformer/model/initial_weights.h"

namespace darkformer {

inline constexpr std::int64_t kSmallWindow = 5;

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
  config.query_pre_attn_scalar = family == Family::kGemma1 ? 8 : 6;
  config.sliding_window = family == Family::kGemma1 ? 0 : kSmallWindow;
  config.layer_kinds = default_layer_kinds(family, layers, 2);
  config.attention.assign(static_cast<std::size_t>(layers), AttentionSpec{});
  check_model_config(config, "small config");
  return config;
}

inline AttentionSpec small_dark_spec() {
  return {.kind = AttentionKind::kDark, .features = 16, .rank = 8, .window = 3, .sinks = 1};
}

// Weights large enough that every part of the model shows in the logits.
inline std::shared_ptr<Decoder> small_decoder(const ModelConfig& config, std::uint64_t seed = 7) {
  return std::make_shared<Decoder>(config, initial_weights(seed, 0.2));
}

inline const std::vector<Family>& all_families() {
  static const std::vector<Family> families = {Family::kGemma1, Family::kGemma2, Family::kGemma3};
  return families;
}

}  // namespace darkformer
