// The families of decoders that we know, and the parts that each chooses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "darkformer/base/activation.h"

namespace darkformer {

enum class Family : std::uint8_t {
  kGemma1,
  kGemma2,
  kGemma3,
  kGemma4,
  kLlama,
  kMistral,
  kQwen2,
  kQwen3,
};

// What all models of a family have in common. What its configs may choose is in ModelConfig.
struct FamilyParts {
  Family family;
  std::string_view model_type;    // of config.json
  std::string_view wrapped_type;  // of a multimodal config that holds such a one; "" for none
  std::string_view architecture;  // Hugging Face's class
  double norm_unit = 0;           // norms multiply by norm_unit + w
  Activation activation = Activation::kSilu;
  bool scales_embedding = false;  // times sqrt(hidden size)
  bool post_norms = false;        // a norm behind attention and feed-forward part too
  bool qk_norm = false;           // q and k of each head are normed, with weights
  bool value_norm = false;        // and v, without
  bool layer_scalar = false;      // a layer's output is multiplied by a number of its own
  bool ties_head = false;         // unless config.json says otherwise
};

const FamilyParts& parts_of(Family family);
std::span<const FamilyParts> all_family_parts();

// "gemma, gemma2, ...": every model_type that is read.
std::string model_type_names();

}  // namespace darkformer
