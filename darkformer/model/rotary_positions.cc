// Tables of cosines and sines that grow by doubling.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/rotary_positions.h"

#include <algorithm>

namespace darkformer {

std::shared_ptr<const ops::RotaryTable> RotaryPositions::table_of(std::int64_t positions) const {
  return ops::make_rotary_table(rope_frequencies(rope_, head_dim_, positions), rope_.amplitude,
                                positions);
}

std::shared_ptr<const ops::RotaryTable> RotaryPositions::reaching(std::int64_t end) {
  constexpr std::int64_t kFirstPositions = 512;
  const std::lock_guard lock(mutex_);
  const auto size = [](const auto& table) {
    return table ? static_cast<std::int64_t>(table->positions()) : 0;
  };
  const bool dynamic = rope_.kind == RopeKind::kDynamic;
  if (dynamic && end > rope_.original) {  // the angles depend on the length itself
    if (size(long_) != end) {
      long_ = table_of(end);
    }
    return long_;
  }
  if (size(table_) < end) {
    const std::int64_t longer = std::max({kFirstPositions, 2 * size(table_), end});
    table_ = table_of(dynamic ? rope_.original : longer);
  }
  return table_;
}

}  // namespace darkformer
