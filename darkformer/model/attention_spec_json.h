// An attention's options as an element of config.json.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "darkformer/base/json.h"
#include "darkformer/model/attention_spec.h"

namespace darkformer {

// One element of config.json's "darkformer.layers". A missing rank is head_dim, an unknown key or
// value an Error; near_kernel is written only where it is "model", far_keys where it is "all",
// centre, gate and folded where they are true.
AttentionSpec read_attention_spec(const OrderedJson& layer,
                                  std::int64_t head_dim,
                                  const std::string& where);
OrderedJson attention_spec_json(const AttentionSpec& spec);

}  // namespace darkformer
