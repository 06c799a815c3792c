// Orthogonal draws as a library's QR gives them, with and without the sign fix: only to show what
// the fix is for. The product's draws are kernels/draw_features.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "darkformer/estimators/random_inputs.h"

namespace darkformer::estimators {

// (count,size), count a multiple of size: blocks of rows Q^T of the QR of Gaussian matrices by
// Householder reflections (whose R has a diagonal of either sign), each row then given a length of
// its own, distributed as chi(size). Fixed: rows times the sign of R's diagonal, which makes Q Haar
// distributed.
Matrix householder_draws(std::size_t count,
                         std::size_t size,
                         bool fixed,
                         const RandomSource& source);

}  // namespace darkformer::estimators
