// Fitting the attention of a layer, each kv head with its query heads by itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "darkformer/conversion/row_fit.h"

namespace darkformer {

struct AttentionSpec;

// Fits the tensors of a layer's mixer, heads in parallel, each on one thread: what becomes of a
// head does not depend on their number. `each` is called after every step of a head, from any
// thread, and may throw to stop. `owner`: the mixer of the layer whose keys, draws and factor this
// one uses (only its gate is fitted); null where it has its own.
RowFit fit_layer(Mixer& mixer,
                 Mixer* owner,
                 const MixerShape& shape,
                 const AttentionSpec& spec,
                 const RowExamples& examples,
                 const RowFitOptions& options,
                 const std::function<void()>& each = {});

// How many fits a layer is: its kv heads, or one where all share their parameters.
std::int64_t fitted_groups(const MixerShape& shape, const AttentionSpec& spec);

}  // namespace darkformer
