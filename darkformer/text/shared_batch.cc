// Every rank needs a window.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/shared_batch.h"

#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"

namespace darkformer {

void require_shareable(std::int64_t batch, std::int64_t ranks) {
  if (batch < ranks) {
    throw UsageError(concat("a batch of ", count_text(batch, "window"), " cannot be shared among ",
                            ranks, " ranks; take a larger batch or fewer ranks"));
  }
}

}  // namespace darkformer
