// A layer's feed-forward part.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "darkformer/model/parameters.h"
#include "darkformer/ops/gated_unit.h"

namespace darkformer {

struct ModelConfig;

// x (B,T,E) -> down(act(gate x) * up x) (B,T,E).
class FeedForward : public torch::nn::Module {
 public:
  FeedForward(const ModelConfig& config, std::int64_t layer, const ParameterPlace& place);

  at::Tensor forward(const at::Tensor& x) const;

 private:
  Activation activation_;
  std::shared_ptr<Projection> gate_, up_, down_;
};

}  // namespace darkformer
