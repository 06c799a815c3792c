// Products so small that a call into oneDNN costs more than it saves; behind kernels/gemm.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "darkformer/kernels/gemm.h"

namespace darkformer::kernels {

inline constexpr std::size_t kSmallSide = 128;  // two such matrices of floats: 128 KiB of stack

// Whether small_gemm takes the product, and is faster (gemm_bench). Depends on the sizes alone.
bool is_small(const Gemm& product);

// C <- alpha op(A) op(B) + beta C on the calling thread. Nothing lies below the stack pointer, so
// signals may come.
void small_gemm(const Gemm& product);

}  // namespace darkformer::kernels
