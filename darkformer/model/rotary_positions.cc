// Tables of cosines and sines that grow by doubling.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/rotary_positions.h"

#include <algorithm>

namespace darkformer {

std::shared_ptr<const ops::RotaryTable> RotaryPositions::reaching(std::int64_t end) {
  constexpr std::int64_t kFirstPositions = 512;
  const std::lock_guard lock(mutex_);
  const auto present = table_ ? static_cast<std::int64_t>(table_->positions()) : 0;
  if (table_ == nullptr || present < end) {
    const std::int64_t longer = std::max({kFirstPositions, 2 * present, end});
    table_ = ops::make_rotary_table(head_dim_, rope_.base, rope_.factor, longer);
  }
  return table_;
}

}  // namespace darkformer
