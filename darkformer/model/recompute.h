// Parts of a model whose inner values are computed again for the backward pass instead of kept.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace darkformer {

using TensorFunction = std::function<at::Tensor(const at::Tensor&)>;

// run(x), of which only x is kept for the backward pass, which calls run(x) once more and takes its
// gradients. The same bits as without, for a run that depends on x and `parameters` (those that ask
// for gradients) alone and gives a tensor of its own. First derivatives only.
at::Tensor recomputed(TensorFunction run,
                      const at::Tensor& x,
                      const std::vector<at::Tensor>& parameters);

}  // namespace darkformer
