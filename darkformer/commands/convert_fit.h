// The fit of a conversion: its text, its progress, its results.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "darkformer/commands/convert_options.h"
#include "darkformer/conversion/model_fit.h"

namespace darkformer {

class Decoder;

// Does this conversion fit something: --fit, or nobody said otherwise and the attention learns?
bool fits(const ConvertOptions& options, const Context& context);

// Converts `layers` by `convert`, which gets what each reads, and fits them.
std::vector<RowFit> fit_layers(
    const ConvertOptions& options,
    const std::vector<std::int64_t>& layers,
    Decoder& model,
    const std::function<void(std::int64_t, const RowExamples&)>& convert,
    Context& context);

}  // namespace darkformer
