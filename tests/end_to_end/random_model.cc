// Writes a model folder of any shape with random bfloat16 weights: what tests of large models run on.
// SPDX-License-Identifier: Apache-2.0
//
// random_model CONFIG.json|SHAPE FOLDER [BYTES]     SHAPE: gemma-2b, gemma-3-1b, ... (model/model_shapes.h);
// with BYTES the weights are in shards of at most so many.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "darkformer/base/error.h"
#include "darkformer/base/philox.h"
#include "darkformer/checkpoint/tensor_names.h"
#include "darkformer/checkpoint/weight_files.h"
#include "darkformer/kernels/convert.h"
#include "darkformer/model/model_shapes.h"

namespace darkformer {
namespace {

// Normal numbers with the deviation of a fresh model; tensors repeat them, which no kernel notices.
std::vector<std::uint16_t> random_block() {
  constexpr std::size_t kValues = (1 << 20) + 7;  // odd, so that rows differ
  std::vector<float> values(kValues);
  Philox(1).fill_normal(std::span<float>(values));
  std::vector<std::uint16_t> block(kValues);
  for (std::size_t i = 0; i < kValues; ++i) {
    block[i] = kernels::float_to_bfloat16(0.02F * values[i]);
  }
  return block;
}

// Tensors are made when their turn to be written comes: one of them is in memory at a time.
std::vector<TensorSource> random_tensors(const ModelConfig& config) {
  const auto block = std::make_shared<std::vector<std::uint16_t>>(random_block());
  const auto values = std::make_shared<std::vector<std::uint16_t>>();
  std::vector<TensorSource> sources;
  for (const ExpectedTensor& tensor : expected_tensors(config)) {
    std::size_t count = 1;
    for (const std::int64_t size : tensor.shape) {
      count *= static_cast<std::size_t>(size);
    }
    const bool is_norm = tensor.shape.size() == 1;
    sources.push_back({tensor.name, DType::kBF16, tensor.shape, [=] {
                         values->assign(count, 0);
                         for (std::size_t at = 0; !is_norm && at < count; at += block->size()) {
                           std::copy_n(block->begin(), std::min(block->size(), count - at),
                                       values->begin() + static_cast<std::ptrdiff_t>(at));
                         }
                         return std::as_bytes(std::span<const std::uint16_t>(*values));
                       }});
  }
  return sources;
}

void write_random_model(const std::filesystem::path& config_file,
                        const std::filesystem::path& folder,
                        std::uint64_t shard_bytes) {
  const auto shape = find_model_shape(config_file.string());
  ModelConfig config = shape ? *shape : read_model_config(config_file);
  require(!config.is_converted(), config_file.string(), ": wanted the config of an exact model");
  config.dtype = "bfloat16";
  std::filesystem::create_directories(folder);
  write_weights(folder, random_tensors(config), shard_bytes);
  write_model_config(folder / "config.json", config);
}

}  // namespace
}  // namespace darkformer

int main(int argc, char** argv) {
  try {
    darkformer::require(argc == 3 || argc == 4,
                        "usage: random_model CONFIG.json|SHAPE FOLDER [BYTES]");
    darkformer::write_random_model(argv[1], argv[2], argc == 4 ? std::stoull(argv[3]) : 0);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "random_model: %s\n", error.what());
    return 1;
  }
}
