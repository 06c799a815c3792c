// Which tensors a model has, what files call them, and whether a folder holds just those.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "darkformer/checkpoint/weight_files.h"

namespace darkformer {

struct ModelConfig;

// Our names are those of Hugging Face's text models: model.embed_tokens.weight, model.norm.weight,
// model.layers.N.self_attn.q_proj.weight, ..., and for converted layers
// model.layers.N.self_attn.dark.draws, ...
struct ExpectedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  bool is_dark = false;  // of a converted attention: always float32
};

// All tensors of a model, the exact ones first, a tied head not among them.
std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config);

// The parameters of one converted layer, under model.layers.N.self_attn.dark.; with N sets of
// per-head parameters (placement: G, H or 1), all shapes in the letters of docs/notation.md:
//   draws (N,F,R), factor and key_factor (N,R,D), log_weights (N,F), query_center (N,D),
//   key_center (G,D), gate_scale and gate_bias (H), gate_weight (H,R).
// A layer that uses the keys of another has a gate alone: the rest is that layer's.
std::vector<ExpectedTensor> dark_tensors(const ModelConfig& config, std::int64_t layer);

// Where a file keeps the language model. Files of multimodal models have it below a prefix.
enum class NameStyle : std::uint8_t {
  kPlain,               // model.layers.0...
  kLanguageModel,       // language_model.model.layers.0...    (transformers up to 4.51)
  kModelLanguageModel,  // model.language_model.layers.0...    (later)
};

// The file's name of one of our names, and back; nothing if it is none of the language model.
std::string stored_name(std::string_view name, NameStyle style);
std::optional<std::string> canonical_name(std::string_view stored, NameStyle style);

struct ModelTensors {
  NameStyle style = NameStyle::kPlain;
  std::map<std::string, const TensorView*, std::less<>> tensors;  // by our names, none missing
  std::vector<const TensorView*> skipped;  // vision tower, projector, stored copy of the tied head
};

// Finds every expected tensor. The files must outlive the result. Error, one line that names the
// folder and the first few tensors of each sort: missing, not of this model, of another shape, of a
// type that is not F32, BF16 or F16 (F32 for converted layers); a stored head that differs from the
// embedding (a sample of both is compared).
ModelTensors find_model_tensors(const ModelConfig& config, const WeightFiles& files);

}  // namespace darkformer
