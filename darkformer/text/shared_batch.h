// The windows of a batch, shared among ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace darkformer {

// UsageError: fewer windows than ranks, so that some would have none.
void require_shareable(std::int64_t batch, std::int64_t ranks);

}  // namespace darkformer
