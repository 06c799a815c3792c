// What the reader and the writer of config.json both know: the names of our own section and keys.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "darkformer/base/json.h"

namespace darkformer::config_keys {

inline constexpr std::int64_t kFormatVersion = 1;
inline constexpr const char* kSection = "darkformer";
inline constexpr const char* kConverted = "DarkGemmaForCausalLM";  // the architecture
inline constexpr const char* kSlidingName = "sliding_attention";
inline constexpr const char* kFullName = "full_attention";

inline bool has_object(const OrderedJson& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_object();
}

inline bool is_null(const OrderedJson& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_null();
}

}  // namespace darkformer::config_keys
