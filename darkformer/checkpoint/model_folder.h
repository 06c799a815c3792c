// A model folder as a model, and a model as a model folder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "darkformer/model/embedding.h"

namespace darkformer {

class Decoder;

struct LoadOptions {
  EmbedScale embed_scale = EmbedScale::kFloat32;
  // Parameters to be trained, by name: they are copied, as float32, and ask for gradients. None
  // where this is empty. The others stay in their stored type, mapped from the file: pages are read
  // when they are used, and a model larger than the memory still loads.
  std::function<bool(const std::string& name)> trains = {};
};

// Error, one line that names the file and the reason: read_model_config, WeightFiles and
// find_model_tensors say which; a generation_config.json that is no JSON object.
std::shared_ptr<Decoder> load_model(const std::filesystem::path& folder,
                                    const LoadOptions& options = {});

struct SaveOptions {
  // Tokenizer and generation settings are copied from this folder; empty: none.
  std::filesystem::path companions = {};
  std::uint64_t shard_bytes = 0;  // 0: one file
};

// Writes the folder atomically: config.json, the weights in their present types under Hugging
// Face's names, and the companions. Loading it gives the same bits. A multimodal config becomes
// that of its language model, which is all there is to save. A model that is there is replaced;
// Error: a folder with other files.
void save_model(const std::filesystem::path& folder,
                const Decoder& model,
                const SaveOptions& options = {});

// The same files into a folder that exists; for those who write more into it before it appears.
void write_model_files(const std::filesystem::path& folder,
                       const Decoder& model,
                       const SaveOptions& options = {});

}  // namespace darkformer
