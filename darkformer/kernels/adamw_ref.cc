// The AdamW update by its formula, in double.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "darkformer/kernels/adamw.h"

namespace darkformer::kernels {

void adamw_step_ref(
    const AdamwSettings& settings, const AdamwArrays& before, double* p, double* m, double* v) {
  const auto t = static_cast<double>(settings.step);
  for (std::size_t i = 0; i < before.count; ++i) {
    const double g = settings.gradient_scale * before.g[i];
    m[i] = settings.beta1 * before.m[i] + (1.0 - settings.beta1) * g;
    v[i] = settings.beta2 * before.v[i] + (1.0 - settings.beta2) * g * g;
    const double mean = m[i] / (1.0 - std::pow(settings.beta1, t));
    const double square = v[i] / (1.0 - std::pow(settings.beta2, t));
    p[i] = before.p[i] * (1.0 - settings.learning_rate * settings.weight_decay) -
           settings.learning_rate * mean / (std::sqrt(square) + settings.epsilon);
  }
}

}  // namespace darkformer::kernels
