// Embedding and head on the ops.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/embedding.h"

#include <ATen/TensorOperators.h>

#include <cmath>

#include "darkformer/model/model_config.h"
#include "darkformer/ops/embedding.h"
#include "darkformer/ops/linear.h"

namespace darkformer {

at::Tensor Embedding::forward(const at::Tensor& ids) const {
  return ops::embedding(ids, value(), scale_);
}

double embedding_scale(const ModelConfig& config, EmbedScale rounding) {
  if (!config.parts().scales_embedding) {
    return 1;
  }
  const double root = std::sqrt(static_cast<double>(config.hidden_size));
  return rounding == EmbedScale::kFloat32
             ? root
             : static_cast<float>(c10::BFloat16(static_cast<float>(root)));
}

at::Tensor head_logits(const at::Tensor& hidden, const at::Tensor& weight, double softcap) {
  const at::Tensor raw = ops::linear(hidden, weight);
  return softcap > 0 ? softcap * (raw / softcap).tanh() : raw;
}

}  // namespace darkformer
