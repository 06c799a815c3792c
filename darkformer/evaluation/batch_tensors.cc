// Token rows, shifted by one and masked.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/batch_tensors.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace darkformer {

BatchTensors tensors_of(const TokenBatch& batch) {
  // from_blob takes a mutable pointer, but nothing is written through it: both are copied.
  const at::Tensor ids = at::from_blob(const_cast<std::int64_t*>(batch.ids.data()),
                                       {batch.rows, batch.context + 1}, at::kLong);
  const at::Tensor counted = at::from_blob(const_cast<std::uint8_t*>(batch.counted.data()),
                                           {batch.rows, batch.context}, at::kByte);
  return {ids.narrow(1, 0, batch.context).clone(at::MemoryFormat::Contiguous),
          ids.narrow(1, 1, batch.context).masked_fill(counted.eq(0), -1),
          std::count(batch.counted.begin(), batch.counted.end(), std::uint8_t{1})};
}

}  // namespace darkformer
