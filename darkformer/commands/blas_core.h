// Which kernels the BLAS behind libtorch's own products has chosen, and a better choice.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace darkformer {

// OpenBLAS's name of the CPU it takes this one for ("SkylakeX"); empty for another library.
std::string blas_core();

// OpenBLAS releases do not know later CPUs and then fall back to kernels without AVX, which would
// make a rival look slow. Where that has happened, starts this program anew with
// OPENBLAS_CORETYPE set to the best its CPU has; it is read when the library is loaded, so there is
// no other way. Returns where nothing is to be gained or the user has set the variable.
void restart_with_best_blas(char** arguments);

}  // namespace darkformer
