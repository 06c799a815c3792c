// The tied embedding on the ops.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/embedding.h"

#include <ATen/TensorOperators.h>

#include <cmath>

#include "darkformer/ops/embedding.h"
#include "darkformer/ops/linear.h"

namespace darkformer {
namespace {

double scale_of(std::int64_t E, EmbedScale scale) {
  const double root = std::sqrt(static_cast<double>(E));
  return scale == EmbedScale::kFloat32
             ? root
             : static_cast<float>(c10::BFloat16(static_cast<float>(root)));
}

}  // namespace

Embedding::Embedding(const ParameterPlace& place, std::int64_t V, std::int64_t E, EmbedScale scale)
    : Weight(place, {V, E}), scale_(scale_of(E, scale)) {}

at::Tensor Embedding::forward(const at::Tensor& ids) const {
  return ops::embedding(ids, value(), scale_);
}

at::Tensor Embedding::logits(const at::Tensor& hidden, double softcap) const {
  const at::Tensor raw = ops::linear(hidden, value());
  return softcap > 0 ? softcap * (raw / softcap).tanh() : raw;
}

ops::CrossEntropy Embedding::loss(const at::Tensor& hidden,
                                  const at::Tensor& targets,
                                  double softcap) const {
  return ops::cross_entropy(hidden, value(), targets, softcap);
}

}  // namespace darkformer
