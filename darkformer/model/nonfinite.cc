// Looking through all tensors of a model.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/nonfinite.h"

#include <ATen/ops/isfinite.h>

#include <algorithm>

#include "darkformer/model/decoder.h"

namespace darkformer {
namespace {

constexpr std::int64_t kScanBlock = 1 << 22;  // numbers at once: an embedding may be gigabytes

bool is_finite(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_floating_point()) {
    return true;
  }
  const at::Tensor flat = tensor.detach().flatten();
  for (std::int64_t first = 0; first < flat.numel(); first += kScanBlock) {
    const std::int64_t count = std::min(kScanBlock, flat.numel() - first);
    if (!at::isfinite(flat.narrow(0, first, count)).all().item<bool>()) {
      return false;
    }
  }
  return true;
}

std::string nonfinite_weight(const Decoder& model) {
  for (const auto& tensors : {model.named_parameters(), model.named_buffers()}) {
    for (const auto& named : tensors) {
      if (!is_finite(named.value())) {
        return named.key();
      }
    }
  }
  return "";
}

std::string nonfinite_gradient(const Decoder& model) {
  const auto parameters = model.named_parameters();
  for (std::size_t i = parameters.size(); i > 0; --i) {
    if (!is_finite(parameters[i - 1].value().grad())) {
      return parameters[i - 1].key();
    }
  }
  return "";
}

}  // namespace

std::string Nonfinite::cause() const {
  if (!weight.empty()) {
    return weight + " holds NaN or infinity";
  }
  return gradient.empty() ? "all weights are finite, but numbers on the way grow too large"
                          : "all weights are finite, but not the gradient of " + gradient;
}

Nonfinite find_nonfinite(const Decoder& model) {
  Nonfinite found{.weight = nonfinite_weight(model), .gradient = {}};
  if (found.weight.empty()) {
    found.gradient = nonfinite_gradient(model);
  }
  return found;
}

}  // namespace darkformer
