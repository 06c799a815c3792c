// The doors of exact attention: check the shape, choose the way.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/exact_attention.h"

#include <cassert>
#include <cstdint>

#include "darkformer/base/aligned_buffer.h"
#include "darkformer/kernels/exact_attention_parts.h"

namespace darkformer::kernels {
namespace {

thread_local AlignedBuffer<float> scratch;

[[maybe_unused]] bool well_formed(const ExactAttention& a) {
  // Positions are compared as 32-bit lanes.
  const bool lanes_hold = a.S + a.T + a.window < std::size_t{INT32_MAX} - 2 * kQueryBlock;
  return a.G > 0 && a.H % a.G == 0 && (a.causal || a.window == 0) && lanes_hold;
}

bool has_queries(const ExactAttention& a) {
  return a.B > 0 && a.H > 0 && a.T > 0;
}

void fill_zero(HeadsView<float> view, const ExactAttention& a, std::size_t D) {
  for (std::size_t row = 0; row < a.B * a.G * a.S; ++row) {
    float* out = view.row(row / (a.G * a.S), row / a.S % a.G, row % a.S);
    for (std::size_t d = 0; d < D; ++d) {
      out[static_cast<std::ptrdiff_t>(d) * view.element] = 0.0F;
    }
  }
}

}  // namespace

float* thread_scratch(std::size_t count) {
  return scratch.reserve(count);
}

void exact_attention(const ExactAttention& a,
                     const AttentionInputs& in,
                     const AttentionOutputs& out) {
  assert(well_formed(a));
  if (!has_queries(a)) {
    return;
  }
  if (a.T == 1) {
    forward_decode(a, in, out);
  } else {
    forward_blocks(a, in, out);
  }
}

void exact_attention_backward(const ExactAttention& a,
                              const AttentionInputs& in,
                              const AttentionSaved& saved,
                              const AttentionGradients& out) {
  assert(well_formed(a));
  if (has_queries(a)) {
    backward_blocks(a, in, saved, out);
    return;
  }
  fill_zero(out.dk, a, a.D);
  fill_zero(out.dv, a, a.Dv);
}

}  // namespace darkformer::kernels
