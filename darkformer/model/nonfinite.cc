// Looking through all tensors of a model.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/nonfinite.h"

#include <ATen/ops/isfinite.h>

namespace darkformer {
namespace {

bool is_finite(const at::Tensor& tensor) {
  return !tensor.defined() || !tensor.is_floating_point() ||
         at::isfinite(tensor.detach()).all().item<bool>();
}

}  // namespace

std::string nonfinite_weight(const Gemma& model) {
  for (const auto& tensors : {model.named_parameters(), model.named_buffers()}) {
    for (const auto& named : tensors) {
      if (!is_finite(named.value())) {
        return named.key();
      }
    }
  }
  return "";
}

std::string nonfinite_gradient(const Gemma& model) {
  for (const auto& named : model.named_parameters()) {
    if (!is_finite(named.value().grad())) {
      return named.key();
    }
  }
  return "";
}

std::string nonfinite_cause(const Gemma& model) {
  const std::string weight = nonfinite_weight(model);
  return weight.empty() ? "all weights are finite, but numbers on the way grow too large"
                        : weight + " holds NaN or infinity";
}

}  // namespace darkformer
