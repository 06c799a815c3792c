// Single files, shards and their index.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/checkpoint/weight_files.h"

#include <algorithm>
#include <set>
#include <utility>

#include "darkformer/base/error.h"
#include "darkformer/base/json.h"
#include "darkformer/base/printable.h"

namespace darkformer {
namespace {

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

// A plain name: no folders, no way out of this one.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string("/\\\0", 3)) == std::string::npos;
}

std::string shard_name(std::size_t number, std::size_t count) {
  const auto five = [](std::size_t value) {
    const std::string digits = std::to_string(value);
    return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
  };
  return "model-" + five(number) + "-of-" + five(count) + ".safetensors";
}

bool is_shard_name(const std::string& name) {
  return name.starts_with("model-") && name.find("-of-") != std::string::npos &&
         name.ends_with(".safetensors");
}

std::uint64_t bytes_of(const TensorSource& tensor) {
  const auto bytes = tensor_bytes(tensor.dtype, tensor.shape);
  require(bytes.has_value(), "tensor '", tensor.name, "': absurd shape ", shape_text(tensor.shape));
  return *bytes;
}

std::vector<std::vector<TensorSource>> split(std::vector<TensorSource> tensors,
                                             std::uint64_t shard_bytes) {
  std::vector<std::vector<TensorSource>> shards(1);
  std::uint64_t filled = 0;
  for (TensorSource& tensor : tensors) {
    const std::uint64_t bytes = bytes_of(tensor);
    const bool full = filled > shard_bytes || bytes > shard_bytes - filled;
    if (shard_bytes > 0 && full && !shards.back().empty()) {
      shards.emplace_back();
      filled = 0;
    }
    filled += bytes;
    shards.back().push_back(std::move(tensor));
  }
  return shards;
}

// What an earlier, differently split version left behind.
void remove_others(const std::filesystem::path& folder, const std::set<std::string>& written) {
  std::vector<std::filesystem::path> stale;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if ((name == kSingle || name == kIndex || is_shard_name(name)) && !written.contains(name)) {
      stale.push_back(entry.path());
    }
  }
  for (const auto& path : stale) {
    std::error_code error;
    std::filesystem::remove(path, error);
    require(!error, path.string(), ": stale weights cannot be removed: ", error.message());
  }
}

}  // namespace

WeightFiles::WeightFiles(const std::filesystem::path& folder) : folder_(folder) {
  const auto index = folder / kIndex;
  std::error_code error;
  const bool single = std::filesystem::exists(folder / kSingle, error);
  require(!error, folder.string(), ": cannot be read: ", error.message());
  require(single || std::filesystem::exists(index, error), folder.string(), ": no ", kSingle,
          " and no ", kIndex);
  main_file_ = single ? folder / kSingle : index;
  const auto names = single ? std::vector<std::string>{kSingle} : read_index(index);
  files_.reserve(names.size());
  for (const std::string& name : names) {
    add_file(folder / name);
  }
  check_index(index);
}

std::vector<std::string> WeightFiles::read_index(const std::filesystem::path& index) {
  const std::string source = index.string();
  const Json document = read_json(index);
  const auto map = document.is_object() ? document.find("weight_map") : document.end();
  require(map != document.end() && map->is_object(), source, ": \"weight_map\" is missing");
  std::set<std::string> names;
  for (const auto& [tensor, value] : map->items()) {
    require(value.is_string() && is_plain_name(value.get<std::string>()), source, ": tensor '",
            printable(tensor), "' is said to be in ", printable(value.dump()),
            ", which is no file of this folder");
    names.insert(value.get<std::string>());
    promised_.emplace(tensor, value.get<std::string>());
  }
  require(!names.empty(), source, ": \"weight_map\" is empty");
  return {names.begin(), names.end()};
}

void WeightFiles::add_file(const std::filesystem::path& file) {
  const SafetensorsFile& added = files_.emplace_back(file);
  for (const TensorView& tensor : added.tensors()) {
    const auto [entry, first] = tensors_.emplace(tensor.name, &tensor);
    require(first, file.string(), ": tensor '", printable(tensor.name), "' is also in ",
            first ? "" : places_.at(tensor.name));
    places_.emplace(tensor.name, file.string());
    bytes_ += tensor.bytes;
  }
}

void WeightFiles::check_index(const std::filesystem::path& index) const {
  for (const auto& [tensor, shard] : promised_) {
    const auto place = places_.find(tensor);
    require(place != places_.end() && place->second == (folder_ / shard).string(),
            (folder_ / shard).string(), ": has no tensor '", printable(tensor), "', which ",
            index.filename().string(), " says it has");
  }
  for (const auto& [tensor, file] : places_) {
    require(promised_.empty() || promised_.contains(tensor), file, ": has tensor '",
            printable(tensor), "', which ", index.filename().string(), " does not name");
  }
}

const TensorView* WeightFiles::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second;
}

std::string WeightFiles::file_of(std::string_view name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? folder_.string() : found->second;
}

void write_weights(const std::filesystem::path& folder,
                   std::vector<TensorSource> tensors,
                   std::uint64_t shard_bytes) {
  auto shards = split(std::move(tensors), shard_bytes);
  if (shards.size() == 1) {
    write_safetensors(folder / kSingle, std::move(shards[0]));
    remove_others(folder, {kSingle});
    return;
  }
  std::uint64_t total = 0;
  std::set<std::string> written = {kIndex};
  std::map<std::string, std::string> weight_map;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shard_name(i + 1, shards.size());
    written.insert(name);
    for (const TensorSource& tensor : shards[i]) {
      total += bytes_of(tensor);
      const bool first = weight_map.emplace(tensor.name, name).second;
      require(first, folder.string(), ": tensor '", tensor.name, "' would be written twice");
    }
    write_safetensors(folder / name, std::move(shards[i]));
  }
  OrderedJson index;
  index["metadata"]["total_size"] = total;
  index["weight_map"] = weight_map;
  write_json(folder / kIndex, index);
  remove_others(folder, written);
}

}  // namespace darkformer
