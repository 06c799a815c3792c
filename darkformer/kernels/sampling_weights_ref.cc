// Sampling weights in plain loops.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "darkformer/kernels/sampling_weights.h"

namespace darkformer::kernels {

void sampling_weights_ref(
    const float* x, std::size_t count, float temperature, double* w, double* sums) {
  const double top = *std::max_element(x, x + count);
  std::fill(sums, sums + weight_blocks(count), 0.0);
  for (std::size_t i = 0; i < count; ++i) {
    w[i] = std::exp((double{x[i]} - top) / double{temperature});
    sums[i / kWeightBlock] += w[i];
  }
}

}  // namespace darkformer::kernels
