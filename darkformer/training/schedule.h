// The learning rate over the steps of a run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace darkformer {

enum class ScheduleKind : std::uint8_t { kConstant, kCosine };

struct Schedule {
  ScheduleKind kind = ScheduleKind::kCosine;
  double peak = 1e-4;
  std::int64_t warmup = 0;   // steps
  std::int64_t steps = 1;    // of the whole run
  double final_share = 0.1;  // of the peak, where a cosine ends

  // Of step s = 1 .. steps:
  //   peak s / warmup                                                          s <= warmup
  //   peak                                                                     constant
  //   peak (f + (1 - f) (1 + cos(pi (s - warmup) / (steps - warmup))) / 2)     cosine, f = share
  // Steps behind the last have the rate of the last.
  double rate(std::int64_t step) const;
};

}  // namespace darkformer
