// Where a model's NaN and infinities are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "darkformer/model/gemma.h"

namespace darkformer {

// The first parameter or buffer of the model that holds a number that is not finite, by its name in
// model folders; empty when there is none. Reads all weights.
std::string nonfinite_weight(const Gemma& model);
// The same for the gradients that are there.
std::string nonfinite_gradient(const Gemma& model);

// Half a sentence for an error about results that are not finite: which weight is to blame, or that
// none is.
std::string nonfinite_cause(const Gemma& model);

}  // namespace darkformer
