// Singular values of every M.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/training/covariance_condition.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "darkformer/model/decoder.h"

namespace darkformer {

std::vector<double> covariance_conditions(const Decoder& model) {
  const at::NoGradGuard no_gradients;
  std::vector<double> conditions;
  for (std::int64_t layer = 0; layer < model.layers(); ++layer) {
    const auto parameters = model.block(layer)->attention()->mixer()->named_parameters();
    const at::Tensor* factor = parameters.find("factor");
    double condition = 0;
    const bool covariance =
        model.config().attention[static_cast<std::size_t>(layer)].kind == AttentionKind::kDark;
    if (covariance && factor != nullptr && factor->isfinite().all().item<bool>()) {
      const at::Tensor values = at::linalg_svdvals(factor->to(at::kDouble));  // (N,R), falling
      const at::Tensor ratio = values.select(-1, 0) / values.select(-1, -1);
      condition = ratio.square().max().item<double>();
    }
    conditions.push_back(condition);
  }
  return conditions;
}

}  // namespace darkformer
