// Rotary position embedding as a differentiable op.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "darkformer/kernels/rotary.h"

namespace darkformer::ops {

using RotaryTable = kernels::RotaryTable;

// The angles base^(-2i/D) / factor of positions [0, positions).
std::shared_ptr<const RotaryTable> make_rotary_table(std::int64_t D,
                                                     double base,
                                                     double factor,
                                                     std::int64_t positions);

// The same for angles of any kind; cosines and sines are times `amplitude`.
std::shared_ptr<const RotaryTable> make_rotary_table(std::vector<double> frequencies,
                                                     double amplitude,
                                                     std::int64_t positions);

// Turns pair (i, i + D/2) of row t by the angle (start + t) theta_i of the table:
//   y_i = x_i cos - x_{i+D/2} sin        y_{i+D/2} = x_i sin + x_{i+D/2} cos
//   x (B,H,T,D) float32 or float64 with any strides -> y alike.
// Differentiable in x. The table must reach the last position; the backward pass keeps it alive.
at::Tensor rotary(const at::Tensor& x,
                  const std::shared_ptr<const RotaryTable>& table,
                  std::int64_t start = 0);

}  // namespace darkformer::ops
