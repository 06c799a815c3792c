// Random and identity weights by name.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/initial_weights.h"

#include <ATen/ops/zeros.h>

#include "darkformer/base/checksum.h"
#include "darkformer/base/philox.h"

namespace darkformer {

ParameterMaker initial_weights(std::uint64_t seed, double deviation) {
  return [seed, deviation](const std::string& name, const std::vector<std::int64_t>& shape) {
    at::Tensor weight = at::zeros(shape);
    if (shape.size() > 1) {  // norms are vectors
      const auto stream = static_cast<std::uint32_t>(checksum(name));
      const std::span values(weight.data_ptr<float>(), static_cast<std::size_t>(weight.numel()));
      Philox(seed, stream).fill_normal(values);
      weight.mul_(deviation);
    }
    return weight.requires_grad_();
  };
}

}  // namespace darkformer
