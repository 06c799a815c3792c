// The shape of a decoder of any family, and of its conversion, without any tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "darkformer/model/attention_spec.h"
#include "darkformer/model/family.h"
#include "darkformer/model/rope.h"

namespace darkformer {

// Sliding layers see the last sliding_window keys, the query's own included; full ones see all.
enum class LayerKind : std::uint8_t { kFull, kSliding };

// Text that a config came from: carried along, never compared.
struct SourceText {
  std::string text;

  bool operator==(const SourceText&) const { return true; }
};

struct ModelConfig {
  Family family = Family::kGemma1;
  std::int64_t vocab_size = 0;         // V
  std::int64_t hidden_size = 0;        // E
  std::int64_t intermediate_size = 0;  // of the feed-forward part
  std::int64_t layers = 0;
  std::int64_t heads = 0;     // H
  std::int64_t kv_heads = 0;  // G
  std::int64_t head_dim = 0;  // D; never derived: H * D need not be E
  std::int64_t max_positions = 0;
  std::int64_t sliding_window = 0;  // 0 without sliding layers
  double rms_norm_eps = 1e-6;
  double query_pre_attn_scalar = 0;  // scores are q.k * query_scale()
  double attn_softcap = 0;           // 0: none
  double final_softcap = 0;          // 0: none
  Activation activation = Activation::kGeluTanh;
  bool tied_head = true;     // the head is the embedding
  bool qkv_bias = false;     // of q_proj, k_proj, v_proj
  bool output_bias = false;  // of o_proj
  bool mlp_bias = false;
  RopeSpec rope_full;
  RopeSpec rope_sliding;
  std::vector<LayerKind> layer_kinds;

  // Gemma 4 alone; zero and false elsewhere.
  std::int64_t full_head_dim = 0;    // D of full layers; 0: head_dim
  std::int64_t full_kv_heads = 0;    // G of full layers; 0: kv_heads
  bool keys_are_values = false;      // full layers have no v_proj
  std::int64_t shared_layers = 0;    // so many last layers use keys and values of earlier ones
  bool wide_shared_layers = false;   // whose feed-forward parts are twice as wide
  std::int64_t per_layer_size = 0;   // of each layer's own embedding of the token; 0: none
  std::int64_t per_layer_vocab = 0;  // and its vocabulary

  std::int64_t bos_id = 2;  // -1: none
  std::int64_t pad_id = 0;  // -1: none
  std::vector<std::int64_t> eos_ids = {1};
  std::string dtype = "float32";  // what the file says its weights are

  std::vector<std::string> architectures;  // of the unconverted model
  std::vector<AttentionSpec> attention;    // one a layer
  std::uint64_t seed = 0;                  // of the draws
  std::int64_t draw_index = 0;

  SourceText source;  // config.json as it was read; empty for a config made in memory

  bool operator==(const ModelConfig&) const = default;

  const FamilyParts& parts() const { return parts_of(family); }
  double query_scale() const;  // query_pre_attn_scalar^(-1/2)
  bool is_sliding(std::int64_t layer) const { return layer_kinds[layer] == LayerKind::kSliding; }
  const RopeSpec& rope(std::int64_t layer) const {
    return is_sliding(layer) ? rope_sliding : rope_full;
  }
  // 0: the layer sees everything before it.
  std::int64_t window(std::int64_t layer) const { return is_sliding(layer) ? sliding_window : 0; }
  std::int64_t head_dim_of(std::int64_t layer) const;
  std::int64_t kv_heads_of(std::int64_t layer) const;
  std::int64_t query_width(std::int64_t layer) const { return heads * head_dim_of(layer); }
  std::int64_t kv_width(std::int64_t layer) const {
    return kv_heads_of(layer) * head_dim_of(layer);
  }
  std::int64_t intermediate_of(std::int64_t layer) const;
  // The layer whose keys and values this one uses: itself, or an earlier one of its kind; -1 where
  // there is none (which check_model_config refuses).
  std::int64_t key_layer(std::int64_t layer) const;
  bool owns_keys(std::int64_t layer) const { return layer < layers - shared_layers; }
  bool values_are_keys(std::int64_t layer) const { return keys_are_values && !is_sliding(layer); }
  // The later layers that use the keys and values of this one.
  std::vector<std::int64_t> sharers(std::int64_t layer) const;
  // Is any layer not exact?
  bool is_converted() const;
};

// A model of the family with the sizes of its class in Hugging Face's transformers.
ModelConfig default_model_config(Family family);

// The layer kinds of a family where its configs do not say: Gemma 2 to 4 sliding but for every
// `pattern`-th layer (and Gemma 4's last); full elsewhere.
std::vector<LayerKind> default_layer_kinds(Family family,
                                           std::int64_t layers,
                                           std::int64_t pattern);
std::int64_t default_pattern(Family family);

// Far above any model.
inline constexpr std::int64_t kMostLayers = 10'000, kMostPositions = std::int64_t{1} << 40;

// How many layers use the keys of the layer that owns this one's.
std::int64_t key_group_size(const ModelConfig& config, std::int64_t layer);

// Error naming `source` and the field unless every number is possible and the numbers fit together.
void check_model_config(const ModelConfig& config, const std::string& source);

// Weights of the exact model; a tied head is counted once.
std::int64_t parameter_count(const ModelConfig& config);

// Reads a config.json of any family, nested (text_config) or not, converted or not, in the spelling
// of transformers 4 (rope_theta, rope_scaling, torch_dtype) or 5 (rope_parameters, dtype). Missing
// keys take the family's defaults; only model_type is required. Error, naming the file and the
// field: not JSON, another model_type, features we do not have (bidirectional attention, mixtures
// of experts, other activations or rotations), absurd numbers, a darkformer section that is newer
// than this program.
ModelConfig read_model_config(const std::filesystem::path& file);
ModelConfig parse_model_config(std::string_view text, const std::string& source);

// The config.json of a model: the text it was read from with what has changed since, unknown keys
// as they were. Reading it back gives the same config. A converted model gets the architecture
// DarkGemmaForCausalLM, so that no other tool takes it for a plain Gemma, and a "darkformer"
// section.
std::string model_config_text(const ModelConfig& config);
void write_model_config(const std::filesystem::path& file, const ModelConfig& config);

}  // namespace darkformer
