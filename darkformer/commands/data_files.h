// Text files of a command as token shards, through the cache of tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include "darkformer/commands/command.h"
#include "darkformer/text/packed_tokens.h"
#include "darkformer/text/tokenizer.h"

namespace darkformer {

// Where tokenised texts are kept: $XDG_CACHE_HOME/darkformer, ~/.cache/darkformer, or a folder for
// temporary files where there is no home.
std::filesystem::path default_cache();

// Opens the files, tokenising what is not in the cache yet (an empty `cache`: the default one),
// with progress. Ctrl-C ends it with Interrupted.
Shards open_data(const std::vector<std::filesystem::path>& files,
                 const std::filesystem::path& cache,
                 const Tokenizer& tokenizer,
                 const Context& context);

}  // namespace darkformer
