// Counter-based random numbers: a value is a pure function of (seed, stream, index, element).
// SPDX-License-Identifier: Apache-2.0
//
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011).
// No state: any element can be asked for in any order, by any thread, and comes out the same.
// Uniforms and normals use only IEEE basic operations (no libm), so they have the same bits on
// every machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace darkformer {

// The bijection itself: ten rounds over a 128-bit counter with a 64-bit key, least significant
// word first.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key);

// One family of numbers: key = seed, counter words = (block low, block high, index, stream).
// A block of 128 bits holds two elements: block = element / 2. Thread-safe; copying is cheap.
class Philox {
 public:
  // stream: what the numbers are for (a layer, a purpose); index: which redraw of it.
  explicit Philox(std::uint64_t seed, std::uint32_t stream = 0, std::uint32_t index = 0)
      : seed_(seed), stream_(stream), index_(index) {}

  // 64 random bits.
  std::uint64_t bits(std::uint64_t element) const;
  // An integer in [0, bound), bound >= 1; the bias is below bound / 2^64.
  std::uint64_t below(std::uint64_t element, std::uint64_t bound) const;
  // Uniform in the open interval (0, 1), a multiple of 2^-53.
  double uniform(std::uint64_t element) const;
  // Standard normal by Box-Muller, in double; |value| < 8.6.
  double normal(std::uint64_t element) const;

  // values[i] <- normal(first + i) or uniform(first + i), in parallel; float: the double, rounded.
  // A uniform rounded to float can be 1.
  void fill_normal(std::span<double> values, std::uint64_t first = 0) const;
  void fill_normal(std::span<float> values, std::uint64_t first = 0) const;
  void fill_uniform(std::span<double> values, std::uint64_t first = 0) const;
  void fill_uniform(std::span<float> values, std::uint64_t first = 0) const;

 private:
  std::array<std::uint64_t, 2> block(std::uint64_t number) const;

  std::uint64_t seed_;
  std::uint32_t stream_;
  std::uint32_t index_;
};

}  // namespace darkformer
