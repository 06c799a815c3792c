// Dark attention as ATen calls: any device, float64, differentiable by autograd; linear in time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "darkformer/ops/dark_attention.h"
#include "darkformer/ops/dark_sizes.h"

namespace darkformer::ops {

struct DarkComposition {
  at::Tensor out;    // (B,H,T,Dv)
  at::Tensor share;  // g (B,H,T,1); undefined without window and sinks
  DarkState state;
};

// The arguments are checked. An empty state: a sequence of its own; otherwise T = S tokens that go
// on from it (returned anew).
DarkComposition dark_composition(const DarkSizes& sizes,
                                 const at::Tensor& q,
                                 const at::Tensor& k,
                                 const at::Tensor& v,
                                 const at::Tensor& draws,
                                 const DarkOptions& options,
                                 const DarkState& state);

}  // namespace darkformer::ops
