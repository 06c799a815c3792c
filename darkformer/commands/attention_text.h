// A layer's attention in words, and what its options must hold.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "darkformer/model/attention_spec.h"

namespace darkformer {

// "dark, 64 features, rank 64, centred, window 16 with a gate"; "window 32"; "constant".
std::string attention_text(const AttentionSpec& spec);

// UsageError: attention to a window of no keys.
void require_window(AttentionKind kind, std::int64_t window);

}  // namespace darkformer
