// Loading and saving whole models.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/checkpoint/model_folder.h"

#include <ATen/core/grad_mode.h>

#include <array>

#include "darkformer/base/atomic_file.h"
#include "darkformer/base/error.h"
#include "darkformer/base/json.h"
#include "darkformer/checkpoint/tensor_bytes.h"
#include "darkformer/checkpoint/tensor_names.h"
#include "darkformer/model/decoder.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 7> kCompanions = {
    "tokenizer.model",         "tokenizer.json",         "tokenizer_config.json",
    "special_tokens_map.json", "generation_config.json", "added_tokens.json",
    "chat_template.jinja"};

// The weights of a folder, as the model asks for them.
class FolderWeights {
 public:
  FolderWeights(const ModelConfig& config, const fs::path& folder, const LoadOptions& options)
      : files_(std::make_shared<WeightFiles>(folder)),
        tensors_(find_model_tensors(config, *files_)),
        options_(options) {}

  bool trains(const std::string& name) const { return options_.trains && options_.trains(name); }

  // Shapes were checked by find_model_tensors.
  at::Tensor parameter(const std::string& name) const {
    const at::Tensor stored = mapped_tensor(view(name), files_);
    return trains(name)
               ? stored.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true).requires_grad_()
               : stored;
  }

  // Fills what a mixer has made for itself.
  void fill(Decoder& model) const {
    const at::NoGradGuard no_gradients;
    const std::string mark = ".self_attn.dark.";
    const auto copy = [&](const std::string& name, const at::Tensor& tensor) {
      if (name.find(mark) != std::string::npos) {
        tensor.copy_(copied_tensor(view(name)));
      }
    };
    for (const auto& entry : model.named_buffers()) {
      copy(entry.key(), entry.value());
    }
    for (auto& entry : model.named_parameters()) {
      copy(entry.key(), entry.value());
      entry.value().set_requires_grad(trains(entry.key()));
    }
  }

 private:
  const TensorView& view(const std::string& name) const {
    const auto found = tensors_.tensors.find(name);
    require(found != tensors_.tensors.end(), files_->main_file().string(), ": tensor '", name,
            "' is missing");
    return *found->second;
  }

  std::shared_ptr<const WeightFiles> files_;
  ModelTensors tensors_;
  const LoadOptions& options_;
};

std::string type_name(at::ScalarType type) {
  return type == at::kBFloat16 ? "bfloat16" : type == at::kHalf ? "float16" : "float32";
}

// The config of what is saved: the type as it is now, the language model of a multimodal one.
ModelConfig saved_config(const Decoder& model) {
  ModelConfig config = model.config();
  config.dtype = type_name(model.embedding()->value().scalar_type());
  if (!config.source.text.empty() &&
      parse_json(config.source.text, "config.json").contains("text_config")) {
    config.source.text.clear();
    config.architectures = {std::string(config.parts().architecture)};
  }
  return config;
}

std::vector<TensorSource> sources_of(const Decoder& model) {
  std::vector<TensorSource> sources;
  for (const auto& entry : model.named_parameters()) {
    sources.push_back(source_of(entry.key(), entry.value()));
  }
  for (const auto& entry : model.named_buffers()) {
    sources.push_back(source_of(entry.key(), entry.value()));
  }
  return sources;
}

// Nobody here reads it, but who reads a folder that it was copied into would be the first to see.
void check_generation_config(const fs::path& folder) {
  const fs::path file = folder / "generation_config.json";
  std::error_code failed;
  if (fs::exists(file, failed)) {
    require(read_json(file).is_object(), file.string(), ": must be a JSON object");
  }
}

void copy_companions(const fs::path& from, const fs::path& to) {
  for (const char* name : kCompanions) {
    std::error_code failed;
    if (fs::exists(from / name, failed)) {
      fs::copy_file(from / name, to / name, fs::copy_options::overwrite_existing, failed);
      require(!failed, (from / name).string(), ": cannot be copied: ", failed.message());
    }
  }
}

// What is there would be lost.
void require_replaceable(const fs::path& folder) {
  std::error_code none;
  require(!fs::is_directory(folder, none) || fs::is_empty(folder, none) ||
              fs::exists(folder / "config.json", none),
          folder.string(), ": holds other files than a model; give another folder");
}

}  // namespace

std::shared_ptr<Decoder> load_model(const fs::path& folder, const LoadOptions& options) {
  ModelConfig config = read_model_config(folder / "config.json");
  check_generation_config(folder);
  const FolderWeights weights(config, folder, options);
  const auto make = [&](const std::string& name, const std::vector<std::int64_t>&) {
    return weights.parameter(name);
  };
  auto model = std::make_shared<Decoder>(std::move(config), make, options.embed_scale);
  weights.fill(*model);
  return model;
}

void write_model_files(const fs::path& folder, const Decoder& model, const SaveOptions& options) {
  write_model_config(folder / "config.json", saved_config(model));
  write_weights(folder, sources_of(model), options.shard_bytes);
  if (!options.companions.empty()) {
    copy_companions(options.companions, folder);
  }
}

void save_model(const fs::path& folder, const Decoder& model, const SaveOptions& options) {
  require_replaceable(folder);
  AtomicDirectory directory(folder);
  write_model_files(directory.path(), model, options);
  directory.commit();
}

}  // namespace darkformer
