// How far a result may be from its reference: computed from the precision, the number of terms and
// their size, never guessed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

namespace darkformer {

inline constexpr double kEpsFloat = std::numeric_limits<float>::epsilon();
inline constexpr double kEpsBfloat16 = 1.0 / 128;  // 8 significant bits

// |computed - exact| for a sum of `terms` products in precision eps, where `magnitude` bounds the
// sum of the absolute products. The worst case grows with the number of terms, the usual error with
// its root; the factor 8 leaves room for the usual error at five standard deviations and for the
// few roundings around the sum. Derived in docs/numerics.md.
inline double sum_bound(double eps, std::size_t terms, double magnitude) {
  return 8.0 * eps * std::sqrt(static_cast<double>(terms) + 1.0) * magnitude;
}

}  // namespace darkformer
