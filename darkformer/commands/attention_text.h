// A layer's attention in words.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "darkformer/model/attention_spec.h"

namespace darkformer {

// "dark, 64 features, rank 64, centred, window 16 with a gate"; "window 32"; "constant".
std::string attention_text(const AttentionSpec& spec);

}  // namespace darkformer
