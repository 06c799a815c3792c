// The sum of squares in one loop, in extended precision where the machine has it.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/squared_norm.h"

namespace darkformer::kernels {

double squared_norm_ref(const float* x, std::size_t count) {
  long double sum = 0.0L;
  for (std::size_t i = 0; i < count; ++i) {
    sum += static_cast<long double>(x[i]) * x[i];
  }
  return static_cast<double>(sum);
}

}  // namespace darkformer::kernels
