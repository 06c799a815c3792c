// The door of dark attention: every argument checked once, sizes read off, one line for each
// mistake.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "darkformer/ops/dark_attention.h"

namespace darkformer::ops {

struct DarkSizes {
  std::int64_t B, H, G, N, T, S, D, Dv, F, R;
  double scale;
};

// q, k, v of any attention: four dimensions, one type and device, heads that divide, no size 0.
void check_attention_inputs(const char* op,
                            const at::Tensor& q,
                            const at::Tensor& k,
                            const at::Tensor& v);

// Throws unless the call is sound. `op` begins the message.
DarkSizes check_dark(const char* op,
                     const at::Tensor& q,
                     const at::Tensor& k,
                     const at::Tensor& v,
                     const at::Tensor& draws,
                     const DarkOptions& options);

// For the ops that go on from a state: causal, T = S, and a state that is empty or fits.
void check_dark_state(const char* op,
                      const DarkSizes& sizes,
                      const at::Tensor& q,
                      const DarkOptions& options,
                      const DarkState& state);

// The tensors of a fresh sequence.
DarkState empty_dark_state(const DarkSizes& sizes,
                           const DarkOptions& options,
                           const at::Tensor& like);

// True where our kernels run: on the CPU, in float32 or bfloat16, unless composition is forced.
bool runs_kernels(const at::Tensor& q);

}  // namespace darkformer::ops
