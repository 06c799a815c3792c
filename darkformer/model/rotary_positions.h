// The cosines and sines of all layers with one rotation, made longer when a sequence needs it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "darkformer/model/rope.h"
#include "darkformer/ops/rotary.h"

namespace darkformer {

// Thread-safe. A table that was handed out stays as it is: a longer one is a new table.
class RotaryPositions {
 public:
  RotaryPositions(const RopeSpec& rope, std::int64_t head_dim) : rope_(rope), head_dim_(head_dim) {}

  // A table that holds at least positions [0, end), of a sequence of `end` tokens.
  std::shared_ptr<const ops::RotaryTable> reaching(std::int64_t end);

 private:
  std::shared_ptr<const ops::RotaryTable> table_of(std::int64_t positions) const;

  const RopeSpec rope_;
  const std::int64_t head_dim_;
  std::mutex mutex_;
  std::shared_ptr<const ops::RotaryTable> table_;  // of any length
  std::shared_ptr<const ops::RotaryTable> long_;   // of one length beyond the original, dynamic
};

}  // namespace darkformer
