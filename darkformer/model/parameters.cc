// Modules of one weight.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/parameters.h"

#include "darkformer/ops/linear.h"
#include "darkformer/ops/rms_norm.h"

namespace darkformer {

Weight::Weight(const ParameterPlace& place, const std::vector<std::int64_t>& shape) {
  const at::Tensor made = place.weight(shape);
  value_ = register_parameter("weight", made, made.requires_grad());
}

at::Tensor Projection::forward(const at::Tensor& x) const {
  return ops::linear(x, value());
}

at::Tensor Norm::forward(const at::Tensor& x) const {
  return ops::rms_norm(x, value(), epsilon_);
}

}  // namespace darkformer
