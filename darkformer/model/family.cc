// The table of families.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/family.h"

#include <array>

namespace darkformer {
namespace {

constexpr FamilyParts gemma_parts(Family family,
                                  std::string_view model_type,
                                  std::string_view wrapped_type,
                                  std::string_view architecture) {
  return {.family = family,
          .model_type = model_type,
          .wrapped_type = wrapped_type,
          .architecture = architecture,
          .norm_unit = family == Family::kGemma4 ? 0.0 : 1.0,
          .activation = Activation::kGeluTanh,
          .scales_embedding = true,
          .post_norms = family != Family::kGemma1,
          .qk_norm = family == Family::kGemma3 || family == Family::kGemma4,
          .value_norm = family == Family::kGemma4,
          .layer_scalar = family == Family::kGemma4,
          .ties_head = true};
}

constexpr FamilyParts llama_parts(Family family,
                                  std::string_view model_type,
                                  std::string_view architecture) {
  return {.family = family,
          .model_type = model_type,
          .wrapped_type = "",
          .architecture = architecture,
          .qk_norm = family == Family::kQwen3};
}

// In the order of the enum.
constexpr std::array<FamilyParts, 8> kFamilies = {{
    gemma_parts(Family::kGemma1, "gemma", "", "GemmaForCausalLM"),
    gemma_parts(Family::kGemma2, "gemma2", "", "Gemma2ForCausalLM"),
    gemma_parts(Family::kGemma3, "gemma3_text", "gemma3", "Gemma3ForCausalLM"),
    gemma_parts(Family::kGemma4, "gemma4_text", "gemma4", "Gemma4ForCausalLM"),
    llama_parts(Family::kLlama, "llama", "LlamaForCausalLM"),
    llama_parts(Family::kMistral, "mistral", "MistralForCausalLM"),
    llama_parts(Family::kQwen2, "qwen2", "Qwen2ForCausalLM"),
    llama_parts(Family::kQwen3, "qwen3", "Qwen3ForCausalLM"),
}};

}  // namespace

const FamilyParts& parts_of(Family family) {
  return kFamilies[static_cast<std::size_t>(family)];
}

std::span<const FamilyParts> all_family_parts() {
  return kFamilies;
}

std::string model_type_names() {
  std::string names;
  for (const FamilyParts& parts : kFamilies) {
    for (const std::string_view name : {parts.wrapped_type, parts.model_type}) {
      if (!name.empty()) {
        names += (names.empty() ? "" : ", ") + std::string(name);
      }
    }
  }
  return names;
}

}  // namespace darkformer
