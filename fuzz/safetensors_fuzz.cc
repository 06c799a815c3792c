// A safetensors file: header and offsets, then every byte of every tensor.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/checkpoint/safetensors.h"

#include "fuzz/input.h"

using namespace darkformer;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzz::input_file("model.safetensors", fuzz::text_of(data, size));
  fuzz::expect_error_or_success([&] {
    const SafetensorsFile file(path);
    std::size_t sum = 0, bytes = 0;
    for (const TensorView& tensor : file.tensors()) {
      for (std::size_t i = 0; i < tensor.bytes; ++i) {
        sum += static_cast<std::size_t>(tensor.data[i]);
      }
      bytes += tensor.bytes;
      fuzz::require_true(file.find(tensor.name) == &tensor, "a tensor is not found by its name");
    }
    fuzz::require_true(bytes <= size && sum <= 255 * bytes, "tensors larger than their file");
  });
  return 0;
}
