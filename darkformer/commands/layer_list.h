// Layers on the command line: "0", "3-7", "all", and back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace darkformer {

// In the order of the layers, each once. Texts may hold commas. UsageError: not a number or range,
// or beyond the model's layers; it names the flag.
std::vector<std::int64_t> parse_layers(const char* flag,
                                       const std::vector<std::string>& texts,
                                       std::int64_t layers);

// "0-3, 5"
std::string layer_ranges(const std::vector<std::int64_t>& layers);

}  // namespace darkformer
