// Random draws as a tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace darkformer::ops {

// (groups, features, rank) float32 on the CPU: kernels/draw_features.h.
at::Tensor draw_features(std::int64_t groups,
                         std::int64_t features,
                         std::int64_t rank,
                         std::int64_t seed,
                         std::int64_t stream,
                         std::int64_t index,
                         bool orthogonal = true);

}  // namespace darkformer::ops
