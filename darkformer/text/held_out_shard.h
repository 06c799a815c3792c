// The held-out side of a split as a token shard: a text that training on the other side never sees.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

#include "darkformer/text/corpus_split.h"
#include "darkformer/text/token_encoder.h"

namespace darkformer {

// The targets of the held-out windows, in their order, without BOS and EOS, until there are
// `tokens` of them. Each document (or window, where the split is by windows) is a document of the
// shard, which appears whole. Returns the tokens written. Error: none is held out.
std::int64_t write_held_out(const CorpusSplit& split,
                            const TokenEncoder& encoder,
                            std::int64_t tokens,
                            const std::filesystem::path& file);

}  // namespace darkformer
