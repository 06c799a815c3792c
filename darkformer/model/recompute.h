// Parts of a model whose inner values are computed again for the backward pass instead of kept.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace darkformer {

using TensorsFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

// run(inputs), of which only the inputs are kept for the backward pass, which calls run once more
// and takes its gradients. The same bits as without, for a run that depends on the inputs (of which
// some may be undefined) and `parameters` (those that ask for gradients) alone and gives tensors of
// its own. First derivatives only.
std::vector<at::Tensor> recomputed(TensorsFunction run,
                                   const std::vector<at::Tensor>& inputs,
                                   const std::vector<at::Tensor>& parameters);

}  // namespace darkformer
