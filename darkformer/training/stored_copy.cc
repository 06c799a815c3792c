// Rounding all weights.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/training/stored_copy.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "darkformer/model/decoder.h"

namespace darkformer {

std::shared_ptr<Decoder> bfloat16_copy(const Decoder& model) {
  const at::NoGradGuard no_gradients;
  const auto parameters = model.named_parameters();
  const auto make = [&](const std::string& name, const std::vector<std::int64_t>&) {
    return parameters[name].detach().to(at::kBFloat16);
  };
  auto copy = std::make_shared<Decoder>(model.config(), make);
  const std::string own = ".self_attn.dark.";
  for (auto& entry : copy->named_parameters()) {
    if (entry.key().find(own) != std::string::npos) {
      entry.value().copy_(parameters[entry.key()]);
    }
  }
  const auto buffers = model.named_buffers();
  for (auto& entry : copy->named_buffers()) {
    entry.value().copy_(buffers[entry.key()]);
  }
  return copy;
}

}  // namespace darkformer
