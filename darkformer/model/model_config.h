// The shape of a Gemma 1, 2 or 3 (text), and of its conversion, without any tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "darkformer/model/attention_spec.h"

namespace darkformer {

enum class Family : std::uint8_t { kGemma1, kGemma2, kGemma3 };

// Sliding layers see the last sliding_window keys, the query's own included; full ones see all.
enum class LayerKind : std::uint8_t { kFull, kSliding };

// Pair i of a head is turned by position / factor * base^(-2i/D).
struct RopeSpec {
  double base = 10000;
  double factor = 1;

  bool operator==(const RopeSpec&) const = default;
};

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
  RopeSpec rope_full;
  RopeSpec rope_sliding;
  std::vector<LayerKind> layer_kinds;
  std::int64_t bos_id = 2;
  std::int64_t pad_id = 0;
  std::vector<std::int64_t> eos_ids = {1};
  std::string dtype = "float32";  // what the file says its weights are

  std::vector<std::string> architectures;  // of the unconverted model
  std::vector<AttentionSpec> attention;    // one a layer
  std::uint64_t seed = 0;                  // of the draws
  std::int64_t draw_index = 0;

  SourceText source;  // config.json as it was read; empty for a config made in memory

  bool operator==(const ModelConfig&) const = default;

  std::int64_t query_width() const { return heads * head_dim; }
  std::int64_t kv_width() const { return kv_heads * head_dim; }
  double query_scale() const;  // query_pre_attn_scalar^(-1/2)
  bool is_sliding(std::int64_t layer) const { return layer_kinds[layer] == LayerKind::kSliding; }
  const RopeSpec& rope(std::int64_t layer) const {
    return is_sliding(layer) ? rope_sliding : rope_full;
  }
  // 0: the layer sees everything before it.
  std::int64_t window(std::int64_t layer) const { return is_sliding(layer) ? sliding_window : 0; }
  bool has_post_norms() const { return family != Family::kGemma1; }
  bool has_qk_norm() const { return family == Family::kGemma3; }
  // Is any layer not exact?
  bool is_converted() const;
};

// A model of the family with the sizes of its class in Hugging Face's transformers (gemma-7b,
// gemma-2-2b, and for Gemma 3 a size that nobody released).
ModelConfig default_model_config(Family family);

// "gemma", "gemma2", "gemma3_text".
std::string_view model_type_of(Family family);

// The layer kinds of a family: Gemma 1 full; Gemma 2 and 3 sliding but for every `pattern`-th
// layer.
std::vector<LayerKind> default_layer_kinds(Family family,
                                           std::int64_t layers,
                                           std::int64_t pattern);
inline constexpr std::int64_t kGemma2Pattern = 2;
inline constexpr std::int64_t kGemma3Pattern = 6;

inline constexpr std::int64_t kMostLayers = 10'000;  // far above any model

// Error naming `source` and the field unless every number is possible and the numbers fit together.
void check_model_config(const ModelConfig& config, const std::string& source);

// Weights of the exact model; the tied head is counted once.
std::int64_t parameter_count(const ModelConfig& config);

// Reads a config.json of any of the three families, nested (text_config) or not, converted or not.
// Missing keys take the family's defaults; only model_type is required. Error, naming the file and
// the field: not JSON, another model_type, features we do not have (bidirectional attention,
// biases, an untied head, other rotations), absurd numbers, a darkformer section that is newer than
// this program.
ModelConfig read_model_config(const std::filesystem::path& file);
ModelConfig parse_model_config(std::string_view text, const std::string& source);

// The config.json of a model: the text it was read from with what has changed since, unknown keys
// as they were. Reading it back gives the same config. A converted model gets the architecture
// DarkGemmaForCausalLM, so that no other tool takes it for a plain Gemma, and a "darkformer"
// section.
std::string model_config_text(const ModelConfig& config);
void write_model_config(const std::filesystem::path& file, const ModelConfig& config);

}  // namespace darkformer
