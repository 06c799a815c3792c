// How queries and keys are rotated by their position: the kinds that published models use.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace darkformer {

// Pair i of a head of size D is turned by position * theta_i; with theta = base^(-2i/D):
//   default        theta
//   linear         theta / factor
//   proportional   theta / factor for the first share * D/2 pairs, 0 for the others (Gemma 4)
//   llama3         theta for wavelengths below original / high_frequency, theta / factor above
//                  original / low_frequency, and a blend between (Llama 3.1 and later)
//   yarn           a blend of theta and theta / factor by i, and an amplitude (Qwen 2.5, long)
//   dynamic        theta of a base that grows with the length beyond `original` positions
enum class RopeKind : std::uint8_t { kDefault, kLinear, kProportional, kLlama3, kYarn, kDynamic };

std::string_view rope_kind_name(RopeKind kind);
std::optional<RopeKind> find_rope_kind(std::string_view name);

struct RopeSpec {
  RopeKind kind = RopeKind::kDefault;
  double base = 10000;
  double factor = 1;
  double share = 1;           // proportional
  std::int64_t original = 0;  // positions before the scaling: llama3, yarn, dynamic
  double low_frequency = 1, high_frequency = 4;  // llama3
  double beta_fast = 32, beta_slow = 1;          // yarn
  double amplitude = 1;                          // yarn: of cosines and sines
  bool truncate = true;                          // yarn: bounds of the blend are whole pairs

  bool operator==(const RopeSpec&) const = default;
};

// theta_0 .. theta_{D/2-1} for sequences of `length` tokens, on which only dynamic depends.
std::vector<double> rope_frequencies(const RopeSpec& rope, std::int64_t D, std::int64_t length);

// Yarn's own amplitude for a factor, where a config does not give one.
double yarn_amplitude(double factor, std::optional<double> scale, std::optional<double> scale_all);

}  // namespace darkformer
