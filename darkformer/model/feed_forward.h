// A layer's feed-forward part.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "darkformer/model/parameters.h"

namespace darkformer {

// x (B,T,E) -> down(gelu(gate x) * up x) (B,T,E).
class FeedForward : public torch::nn::Module {
 public:
  FeedForward(const ParameterPlace& place, std::int64_t E, std::int64_t inner);

  at::Tensor forward(const at::Tensor& x) const;

 private:
  std::shared_ptr<Projection> gate_, up_, down_;
};

}  // namespace darkformer
