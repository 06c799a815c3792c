// Random and identity weights by name.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/initial_weights.h"

#include <ATen/ops/full.h>

#include "darkformer/base/checksum.h"
#include "darkformer/base/philox.h"

namespace darkformer {

namespace {

// Of what is a vector.
double start_of(const std::string& name, double norm_unit) {
  return name.ends_with("bias") ? 0.0 : name.ends_with("layer_scalar") ? 1.0 : 1.0 - norm_unit;
}

}  // namespace

ParameterMaker initial_weights(std::uint64_t seed, double deviation, double norm_unit) {
  return [seed, deviation, norm_unit](const std::string& name,
                                      const std::vector<std::int64_t>& shape) {
    at::Tensor weight = at::full(shape, start_of(name, norm_unit), at::kFloat);
    if (shape.size() > 1) {
      const auto stream = static_cast<std::uint32_t>(checksum(name));
      const std::span values(weight.data_ptr<float>(), static_cast<std::size_t>(weight.numel()));
      Philox(seed, stream).fill_normal(values);
      weight.mul_(deviation);
    }
    return weight.requires_grad_();
  };
}

}  // namespace darkformer
