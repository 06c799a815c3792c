// model.safetensors.index.json beside one sound shard and a file outside the folder.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/checkpoint/weight_files.h"
#include "fuzz/input.h"

using namespace darkformer;

namespace {

std::vector<TensorSource> one_tensor(const std::string& name) {
  static const std::vector<std::byte> bytes(8);
  return {{name, DType::kF32, {2}, [] { return std::span<const std::byte>(bytes); }}};
}

const std::filesystem::path& folder() {
  static const ScratchFolder scratch;
  static const std::filesystem::path inside = [] {
    const auto path = scratch.path() / "model";
    std::filesystem::create_directory(path);
    write_safetensors(path / "a.safetensors", one_tensor("a"), pytorch_metadata());
    write_safetensors(scratch.path() / "outside.safetensors", one_tensor("b"), pytorch_metadata());
    return path;
  }();
  return inside;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto index = folder() / "model.safetensors.index.json";
  std::filesystem::remove(index);
  std::filesystem::copy(fuzz::input_file("index.json", fuzz::text_of(data, size)), index);
  fuzz::expect_error_or_success([&] {
    const WeightFiles files(folder());
    fuzz::require_true(files.find("b") == nullptr, "an index read outside its folder");
  });
  return 0;
}
