// Where a model's NaN and infinities are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace darkformer {

class Decoder;

// Names as in model folders; empty where there is nothing.
struct Nonfinite {
  std::string weight;    // the first parameter or buffer that holds NaN or infinity
  std::string gradient;  // where all weights are finite: the first gradient that does, in the order
                         // of the backward pass, which carries it on to all that come after

  // Half a sentence for an error about results that are not finite: what is to blame.
  std::string cause() const;
};

// Reads all weights and the gradients that are there.
Nonfinite find_nonfinite(const Decoder& model);

}  // namespace darkformer
