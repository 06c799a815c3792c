// Kept tokens of a decode state.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/dark_state.h"

#include <algorithm>
#include <limits>

namespace darkformer::kernels {

std::vector<float> gather_tokens(const DarkAttention& s,
                                 const Kept& kept,
                                 HeadsView<const float> fresh,
                                 std::int64_t position) {
  const auto p = static_cast<std::size_t>(position);
  const std::size_t held = std::min(p, s.window), first = p - held,
                    sinks = std::min(s.sinks, first);
  const std::size_t rows = sinks + held + s.T;
  std::vector<float> out(s.B * s.G * rows * kept.size);
  for (std::size_t bg = 0; bg < s.B * s.G; ++bg) {
    float* to = &out[bg * rows * kept.size];
    const auto append = [&](const float* row) { to = std::copy(row, row + kept.size, to); };
    for (std::size_t i = 0; i < sinks; ++i) {
      append(kept.sinks + (bg * s.sinks + i) * kept.size);
    }
    for (std::size_t i = first; i < p; ++i) {
      append(kept.ring + (bg * s.window + i % s.window) * kept.size);
    }
    for (std::size_t t = 0; t < s.T; ++t) {
      const float* row = fresh.row(bg / s.G, bg % s.G, t);
      for (std::size_t d = 0; d < kept.size; ++d) {
        *to++ = row[static_cast<std::ptrdiff_t>(d) * fresh.element];
      }
    }
  }
  return out;
}

void keep_tokens(const DarkAttention& s,
                 const Kept& kept,
                 HeadsView<const float> fresh,
                 std::int64_t position) {
  const auto p = static_cast<std::size_t>(position);
  for (std::size_t bg = 0; bg < s.B * s.G; ++bg) {
    for (std::size_t t = 0; t < s.T; ++t) {
      const float* row = fresh.row(bg / s.G, bg % s.G, t);
      const bool in_ring = t + s.window >= s.T, in_sinks = p + t < s.sinks;
      for (std::size_t d = 0; d < kept.size; ++d) {
        const float value = row[static_cast<std::ptrdiff_t>(d) * fresh.element];
        if (in_ring && s.window > 0) {
          kept.ring[(bg * s.window + (p + t) % s.window) * kept.size + d] = value;
        }
        if (in_sinks) {
          kept.sinks[(bg * s.sinks + p + t) * kept.size + d] = value;
        }
      }
    }
  }
}

void clear_dark_state(const DarkAttention& s, const DarkState& state) {
  const auto zero = [](float* x, std::size_t count) { std::fill(x, x + count, 0.0F); };
  zero(state.sum, s.B * s.N * s.F * s.Dv);
  zero(state.weight, s.B * s.N * s.F);
  zero(state.value_sum, s.B * s.N * s.Dv);
  zero(state.ring_k, s.B * s.G * s.window * s.D);
  zero(state.ring_v, s.B * s.G * s.window * s.Dv);
  zero(state.sink_k, s.B * s.G * s.sinks * s.D);
  zero(state.sink_v, s.B * s.G * s.sinks * s.Dv);
  std::fill(state.log_scale, state.log_scale + s.B * s.N, -std::numeric_limits<float>::infinity());
  *state.position = 0;
}

}  // namespace darkformer::kernels
