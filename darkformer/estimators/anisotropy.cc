// Entropy and ratio of a spectrum.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/estimators/anisotropy.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace darkformer::estimators {

Anisotropy anisotropy(std::span<const double> mean, const Matrix& covariance) {
  Anisotropy result;
  const Spectrum spectrum = symmetric_spectrum(covariance);
  double sum = 0.0, entropy = 0.0;
  for (auto value = spectrum.values.rbegin(); value != spectrum.values.rend(); ++value) {
    result.spectrum.push_back(std::max(*value, 0.0));
    sum += result.spectrum.back();
  }
  for (const double value : result.spectrum) {
    entropy -= value > 0.0 ? value / sum * std::log(value / sum) : 0.0;
  }
  result.mean_size = std::sqrt(squared_norm(mean));
  result.size = std::sqrt(squared_norm(mean) + sum);
  result.effective_rank = sum > 0.0 ? std::exp(entropy) : 0.0;
  result.condition = result.spectrum.back() > 0.0 ? result.spectrum.front() / result.spectrum.back()
                                                  : std::numeric_limits<double>::infinity();
  return result;
}

}  // namespace darkformer::estimators
