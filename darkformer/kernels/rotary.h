// Rotary position embedding in the half-split layout, forward and backward.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "darkformer/base/aligned_buffer.h"
#include "darkformer/kernels/heads_view.h"

namespace darkformer::kernels {

// theta_i = base^(-2i/D) / factor for i < D/2: the angle per position of each pair. `factor` is the
// linear scaling of long-context models (8 in the global layers of Gemma 3 4B and up). D is even.
std::vector<double> rotary_frequencies(std::size_t D, double base, double factor = 1.0);

// amplitude * cos and sin of position * theta_i for positions 0 .. positions()-1: angles and
// functions in double, then rounded to float32, so that far positions are as exact as near ones.
class RotaryTable {
 public:
  RotaryTable(std::vector<double> frequencies, std::size_t positions, double amplitude = 1.0);

  // Makes the table at least this long; pointers into it become invalid. Not while it is in use.
  void extend(std::size_t positions);

  std::size_t half() const { return frequencies_.size(); }
  std::size_t positions() const { return positions_; }
  const std::vector<double>& frequencies() const { return frequencies_; }
  double amplitude() const { return amplitude_; }
  const float* cosine(std::size_t position) const { return values_.data() + position * 2 * half(); }
  const float* sine(std::size_t position) const { return cosine(position) + half(); }

 private:
  std::vector<double> frequencies_;
  double amplitude_;
  std::size_t positions_ = 0;
  AlignedBuffer<float> values_;  // (positions, 2, half): cos, then sin
};

// Row t of a sequence has position start + t, or positions[t] where those are given (T of them).
// Every position is below table.positions(); D = 2 table.half().
struct RotaryShape {
  std::size_t B = 0, H = 0, T = 0, D = 0;
  std::size_t start = 0;
  const std::int64_t* positions = nullptr;
};

// With c, s = cos, sin of the row's position, for each pair (i, i + D/2) of a row of D:
//   y_i <- x_i c_i - x_{i+D/2} s_i        y_{i+D/2} <- x_i s_i + x_{i+D/2} c_i
// x, y (B,H,T,D) with any strides but element = 1. y may be x. Threads share (B,H,T).
void rotary(const RotaryShape& shape,
            const RotaryTable& table,
            const HeadsView<const float>& x,
            const HeadsView<float>& y);

// The transposed map, which is the inverse rotation (with the same amplitude): dx from dy. dx may
// be dy.
void rotary_backward(const RotaryShape& shape,
                     const RotaryTable& table,
                     const HeadsView<const float>& dy,
                     const HeadsView<float>& dx);

// Both from the frequencies themselves, in double; direction +1 forward, -1 backward.
// x, y (B,H,T,D) contiguous.
void rotary_ref(const RotaryShape& shape,
                const std::vector<double>& frequencies,
                const float* x,
                double direction,
                double* y);

}  // namespace darkformer::kernels
