// What commands read where they are given no text: the model's own, sampled once and kept.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "darkformer/commands/command.h"

namespace darkformer {

// The longest sequence where nobody says otherwise, and tokens enough to take means and covariances
// from.
inline constexpr std::int64_t kOwnTextContext = 1024, kOwnTextTokens = 16384;

// --own-tokens, for every command that can do without --data.
inline constexpr const char* kOwnTokensHelp =
    "without --data: tokens of its own text that the model writes first";

inline const FieldTraits kOwnTokensTraits = {.minimum = 1,
                                             .empty_means = std::to_string(kOwnTextTokens)};
// UsageError: --own-tokens with `data`.
void check_own_tokens(std::optional<std::int64_t> own_tokens, bool data);

// What would end a command with text before it begins, before anything is said of it. Error: a
// broken folder, or no tokenizer that fits.
void check_reads_text(const std::filesystem::path& model);

struct OwnTextRequest {
  std::filesystem::path model;
  std::int64_t tokens = kOwnTextTokens;
  std::int64_t context = kOwnTextContext;  // of its sequences; cut to the positions of the model
  std::filesystem::path cache = {};        // empty: the default one
};

// A file of the model's own text, from the cache or sampled now (as darkformer sample does, from
// the command's seed), which is said in a line. A stop on the way loses little: the same command
// goes on.
std::filesystem::path own_text_file(const OwnTextRequest& request, const Context& context);

// Where the sequences of a file gather until all are there.
std::filesystem::path partial_sample(const std::filesystem::path& out);

// The words of the `sample` command for such a file, which go on with one that was stopped.
std::vector<std::string> sample_words(const OwnTextRequest& request,
                                      const std::filesystem::path& out);

}  // namespace darkformer
