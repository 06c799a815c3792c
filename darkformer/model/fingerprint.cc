// Which model is this? A checksum over its config and its tensors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "darkformer/base/checksum.h"
#include "darkformer/model/decoder.h"

namespace darkformer {
namespace {

// Of a large weight so many pages are read, spread evenly: training moves every value of a weight
// it touches, and reading all of a large model would take longer than what the fingerprint guards.
constexpr std::size_t kPages = 64;
constexpr std::size_t kPage = 4096;

std::uint64_t checksum_of(const at::Tensor& tensor, bool whole) {
  const at::Tensor values = tensor.detach().contiguous();
  const auto* bytes = static_cast<const unsigned char*>(values.data_ptr());
  const std::size_t size = values.nbytes();
  if (whole || size <= kPages * kPage) {
    return checksum(bytes, size);
  }
  Checksum sum;
  for (std::size_t i = 0; i < kPages; ++i) {
    sum.update(bytes + (size - kPage) / (kPages - 1) * i, kPage);
  }
  return sum.value();
}

void add_tensor(const std::string& name, const at::Tensor& tensor, KeyBuilder& key) {
  key.add(name).add(c10::toString(tensor.scalar_type()));
  for (const std::int64_t size : tensor.sizes()) {
    key.add(static_cast<std::uint64_t>(size));
  }
  key.add(checksum_of(tensor, name.find(".dark.") != std::string::npos));
}

}  // namespace

std::uint64_t fingerprint(const Decoder& model) {
  ModelConfig config = model.config();
  config.source.text.clear();  // only what changes the numbers
  KeyBuilder key;
  key.add(model_config_text(config)).add(std::to_string(model.embedding()->scale()));
  for (const auto& entry : model.named_parameters()) {
    add_tensor(entry.key(), entry.value(), key);
  }
  for (const auto& entry : model.named_buffers()) {
    add_tensor(entry.key(), entry.value(), key);
  }
  return key.value();
}

}  // namespace darkformer
