// Modules of one weight.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/parameters.h"

#include <ATen/ATen.h>

#include "darkformer/ops/linear.h"
#include "darkformer/ops/rms_norm.h"

namespace darkformer {

Weight::Weight(const ParameterPlace& place, const std::vector<std::int64_t>& shape) {
  const at::Tensor made = place.tensor("weight", shape);
  value_ = register_parameter("weight", made, made.requires_grad());
}

Projection::Projection(const ParameterPlace& place, std::int64_t in, std::int64_t out, bool biased)
    : Weight(place, {out, in}) {
  if (biased) {
    const at::Tensor made = place.tensor("bias", {out});
    bias_ = register_parameter("bias", made, made.requires_grad());
  }
}

at::Tensor Projection::forward(const at::Tensor& x) const {
  const at::Tensor y = ops::linear(x, value());
  return bias_.defined() ? y + bias_.to(y.scalar_type()) : y;
}

void Projection::map_heads(const at::Tensor& maps) {
  const at::NoGradGuard no_gradients;
  const auto mapped = [&](const at::Tensor& stored) {
    const at::Tensor rows = stored.to(at::kFloat);
    const at::Tensor heads = rows.reshape({maps.size(0), maps.size(2), -1});
    return at::matmul(maps, heads).reshape(rows.sizes());
  };
  set_value(mapped(value()));
  if (bias_.defined()) {
    bias_.set_data(mapped(bias_));
  }
}

at::Tensor Norm::forward(const at::Tensor& x) const {
  return ops::rms_norm(x, value(), style_.epsilon, style_.unit);
}

}  // namespace darkformer
