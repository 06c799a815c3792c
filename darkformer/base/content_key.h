// What files hold, as a number: the same after a move or a copy, another after any change.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace darkformer {

// XXH64 of the whole file. Error: it cannot be read, or is a pipe, which would block.
std::uint64_t file_checksum(const std::filesystem::path& file);

// Of the bytes of each path, in this order. Of a folder those of its configuration, weights and
// tokenizer (.json, .safetensors, .model) with their names: what makes it a model, not what a user
// puts beside it.
std::uint64_t content_key(const std::vector<std::filesystem::path>& paths);

}  // namespace darkformer
