// Warm-up, then constant or cosine.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/training/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace darkformer {

double Schedule::rate(std::int64_t step) const {
  const std::int64_t s = std::clamp<std::int64_t>(step, 1, steps);
  if (s <= warmup) {
    return peak * static_cast<double>(s) / static_cast<double>(warmup);
  }
  if (kind == ScheduleKind::kConstant) {
    return peak;
  }
  const double way = static_cast<double>(s - warmup) / static_cast<double>(steps - warmup);
  return peak * (final_share + (1 - final_share) * (1 + std::cos(std::numbers::pi * way)) / 2);
}

}  // namespace darkformer
