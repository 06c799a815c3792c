// The table of sizes.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/model_shapes.h"

#include <array>

namespace darkformer {
namespace {

struct Shape {
  std::string_view name;
  Family family;
  std::int64_t layers, hidden, heads, kv_heads, head_dim, intermediate, vocabulary;
  std::int64_t window;
};

constexpr std::array<Shape, 10> kShapes = {{
    {"gemma-2b", Family::kGemma1, 18, 2048, 8, 1, 256, 16384, 256000, 0},
    {"gemma-7b", Family::kGemma1, 28, 3072, 16, 16, 256, 24576, 256000, 0},
    {"gemma-2-2b", Family::kGemma2, 26, 2304, 8, 4, 256, 9216, 256000, 4096},
    {"gemma-2-9b", Family::kGemma2, 42, 3584, 16, 8, 256, 14336, 256000, 4096},
    {"gemma-2-27b", Family::kGemma2, 46, 4608, 32, 16, 128, 36864, 256000, 4096},
    {"gemma-3-270m", Family::kGemma3, 18, 640, 4, 1, 256, 2048, 262144, 512},
    {"gemma-3-1b", Family::kGemma3, 26, 1152, 4, 1, 256, 6912, 262144, 512},
    {"gemma-3-4b", Family::kGemma3, 34, 2560, 8, 4, 256, 10240, 262208, 1024},
    {"gemma-3-12b", Family::kGemma3, 48, 3840, 16, 8, 256, 15360, 262208, 1024},
    {"gemma-3-27b", Family::kGemma3, 62, 5376, 32, 16, 128, 21504, 262208, 1024},
}};

ModelConfig config_of(const Shape& shape) {
  ModelConfig config = default_model_config(shape.family);
  config.layers = shape.layers;
  config.hidden_size = shape.hidden;
  config.heads = shape.heads;
  config.kv_heads = shape.kv_heads;
  config.head_dim = shape.head_dim;
  config.intermediate_size = shape.intermediate;
  config.vocab_size = shape.vocabulary;
  config.sliding_window = shape.window;
  config.layer_kinds =
      default_layer_kinds(shape.family, shape.layers, default_pattern(shape.family));
  config.attention.assign(static_cast<std::size_t>(shape.layers), AttentionSpec{});
  config.dtype = "bfloat16";
  return config;
}

}  // namespace

std::optional<ModelConfig> find_model_shape(std::string_view name) {
  for (const Shape& shape : kShapes) {
    if (shape.name == name) {
      return config_of(shape);
    }
  }
  return std::nullopt;
}

std::string model_shape_names() {
  std::string names;
  for (const Shape& shape : kShapes) {
    names += (names.empty() ? "" : ", ") + std::string(shape.name);
  }
  return names;
}

}  // namespace darkformer
