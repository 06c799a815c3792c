// The gated feed-forward part on the ops.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/feed_forward.h"

#include "darkformer/ops/geglu.h"

namespace darkformer {

FeedForward::FeedForward(const ParameterPlace& place, std::int64_t E, std::int64_t inner) {
  const auto projection = [&](const char* name, std::int64_t in, std::int64_t out) {
    return register_module(name, std::make_shared<Projection>(place.child(name), in, out));
  };
  gate_ = projection("gate_proj", E, inner);
  up_ = projection("up_proj", E, inner);
  down_ = projection("down_proj", inner, E);
}

at::Tensor FeedForward::forward(const at::Tensor& x) const {
  return down_->forward(ops::geglu(gate_->forward(x), up_->forward(x)));
}

}  // namespace darkformer
