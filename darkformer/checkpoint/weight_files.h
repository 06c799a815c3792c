// All tensors of a model folder, in one file or in shards.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "darkformer/checkpoint/safetensors.h"

namespace darkformer {

// Opens model.safetensors, or the shards that model.safetensors.index.json names. Error: neither is
// there, a shard is missing or broken, an index that names a file outside the folder, a tensor that
// the index promises and its shard lacks or that a shard has and the index does not name, a tensor
// in two shards. Thread-safe.
class WeightFiles {
 public:
  explicit WeightFiles(const std::filesystem::path& folder);

  // Null when there is no such tensor. Views live as long as this object.
  const TensorView* find(std::string_view name) const;
  // All tensors by name.
  const std::map<std::string, const TensorView*, std::less<>>& tensors() const { return tensors_; }
  // "folder/model.safetensors": the file that holds the tensor, or the folder.
  std::string file_of(std::string_view name) const;
  const std::filesystem::path& folder() const { return folder_; }
  // The one file, or the index: what an error about all tensors names.
  const std::filesystem::path& main_file() const { return main_file_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::vector<std::string> read_index(const std::filesystem::path& index);
  void add_file(const std::filesystem::path& file);
  void check_index(const std::filesystem::path& index) const;

  std::filesystem::path folder_;
  std::filesystem::path main_file_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::string, std::less<>> promised_;  // tensor -> shard, by the index
  std::map<std::string, const TensorView*, std::less<>> tensors_;
  std::map<std::string, std::string, std::less<>> places_;  // tensor -> file
  std::uint64_t bytes_ = 0;
};

// Writes model.safetensors, or shards of at most `shard_bytes` of tensors each (0: never split; a
// larger tensor gets its own) with their index, filled in the order given. Each file is written
// atomically, the index last; weights of another form that were in the folder are then removed.
void write_weights(const std::filesystem::path& folder,
                   std::vector<TensorSource> tensors,
                   std::uint64_t shard_bytes = 0);

}  // namespace darkformer
