// A file for each layer.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/conversion/fit_store.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "darkformer/base/checksum.h"
#include "darkformer/base/error.h"
#include "darkformer/checkpoint/safetensors.h"
#include "darkformer/checkpoint/tensor_bytes.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;
using at::Tensor;

constexpr const char *kKey = "fit", *kBefore = "row_kl.before", *kAfter = "row_kl.after";

std::vector<std::pair<std::string, Tensor>> tensors_of(const Mixer& mixer) {
  std::vector<std::pair<std::string, Tensor>> all;
  for (const auto& item : mixer.named_parameters(false)) {
    all.emplace_back(item.key(), item.value());
  }
  for (const auto& item : mixer.named_buffers(false)) {
    all.emplace_back(item.key(), item.value());
  }
  return all;
}

Tensor tensor_of(const std::vector<double>& values) {
  return at::tensor(values, at::kDouble);
}

std::vector<double> values_of(const TensorView& view) {
  const Tensor tensor = copied_tensor(view).to(at::kDouble);
  return {tensor.data_ptr<double>(), tensor.data_ptr<double>() + tensor.numel()};
}

// Whether the file has every tensor of the mixer, in its shape.
bool holds(const SafetensorsFile& file, const Mixer& mixer) {
  for (const auto& [name, tensor] : tensors_of(mixer)) {
    const TensorView* view = file.find(name);
    if (view == nullptr || view->dtype != DType::kF32 || view->shape != tensor.sizes().vec()) {
      return false;
    }
  }
  return file.find(kBefore) != nullptr && file.find(kAfter) != nullptr;
}

}  // namespace

FitStore::FitStore(fs::path folder, std::uint64_t key)
    : folder_(std::move(folder)), key_(to_hex(key)) {}

fs::path FitStore::file_of(std::int64_t layer) const {
  return folder_ / key_ / concat("layer-", layer, ".safetensors");
}

std::optional<RowFit> FitStore::load(std::int64_t layer, Mixer& mixer) const {
  if (!fs::exists(file_of(layer))) {
    return std::nullopt;
  }
  try {
    const SafetensorsFile file(file_of(layer));
    const auto key = file.metadata().find(kKey);
    if (key == file.metadata().end() || key->second != key_ || !holds(file, mixer)) {
      return std::nullopt;
    }
    const at::NoGradGuard no_gradients;
    for (auto& [name, tensor] : tensors_of(mixer)) {
      tensor.copy_(copied_tensor(*file.find(name)));
    }
    return RowFit{values_of(*file.find(kBefore)), values_of(*file.find(kAfter))};
  } catch (const Error&) {
    return std::nullopt;  // damaged: it is fitted again
  }
}

void FitStore::save(std::int64_t layer, const Mixer& mixer, const RowFit& fit) const {
  fs::create_directories(folder_ / key_);
  std::vector<TensorSource> sources;
  for (const auto& [name, tensor] : tensors_of(mixer)) {
    sources.push_back(source_of(name, tensor));
  }
  sources.push_back(source_of(kBefore, tensor_of(fit.before)));
  sources.push_back(source_of(kAfter, tensor_of(fit.after)));
  SafetensorsMetadata metadata = pytorch_metadata();
  metadata[kKey] = key_;
  write_safetensors(file_of(layer), std::move(sources), metadata);
}

std::int64_t FitStore::layers() const {
  std::error_code none;
  const fs::directory_iterator files(folder_ / key_, none);
  return std::count_if(begin(files), end(files),
                       [](const auto& file) { return file.path().extension() == ".safetensors"; });
}

void FitStore::remove() const {
  std::error_code none;
  fs::remove_all(folder_, none);
}

}  // namespace darkformer
