// Frequencies of every kind of rotation.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/rope.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace darkformer {
namespace {

constexpr std::array<std::string_view, 6> kRopeNames = {"default", "linear", "proportional",
                                                        "llama3",  "yarn",   "dynamic"};

double frequency(double base, std::size_t pair, std::int64_t D) {
  return std::pow(base, -2.0 * static_cast<double>(pair) / static_cast<double>(D));
}

// Long waves are stretched, short ones stay, those between are blended.
double llama3_frequency(const RopeSpec& rope, double theta) {
  const double turns = static_cast<double>(rope.original) * theta / (2 * std::numbers::pi);
  if (turns > rope.high_frequency) {
    return theta;
  }
  if (turns < rope.low_frequency) {
    return theta / rope.factor;
  }
  const double share = (turns - rope.low_frequency) / (rope.high_frequency - rope.low_frequency);
  return (1 - share) * theta / rope.factor + share * theta;
}

// The pair that turns `turns` times in the original length, as a real number.
double pair_of_turns(const RopeSpec& rope, std::int64_t D, double turns) {
  const double original = static_cast<double>(rope.original);
  return static_cast<double>(D) * std::log(original / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(rope.base));
}

struct Ramp {
  double low, high;

  double at(std::size_t pair) const {
    return std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
  }
};

// Pairs before it stay, those behind it are stretched.
Ramp yarn_ramp(const RopeSpec& rope, std::int64_t D) {
  double low = pair_of_turns(rope, D, rope.beta_fast);
  double high = pair_of_turns(rope, D, rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(D - 1));
  constexpr double kLeastLength = 0.001;
  return {low, low == high ? high + kLeastLength : high};
}

// The base at which `length` tokens turn the slowest pair as far as `original` did, times factor.
double dynamic_base(const RopeSpec& rope, std::int64_t D, std::int64_t length) {
  const double longer =
      std::max(1.0, static_cast<double>(length) / static_cast<double>(rope.original));
  const double size = static_cast<double>(D);
  return rope.base * std::pow(rope.factor * longer - (rope.factor - 1), size / (size - 2));
}

}  // namespace

std::string_view rope_kind_name(RopeKind kind) {
  return kRopeNames[static_cast<std::size_t>(kind)];
}

std::optional<RopeKind> find_rope_kind(std::string_view name) {
  const auto found = std::find(kRopeNames.begin(), kRopeNames.end(), name);
  return found == kRopeNames.end()
             ? std::nullopt
             : std::optional(static_cast<RopeKind>(found - kRopeNames.begin()));
}

std::vector<double> rope_frequencies(const RopeSpec& rope, std::int64_t D, std::int64_t length) {
  const auto half = static_cast<std::size_t>(D / 2);
  const double base = rope.kind == RopeKind::kDynamic ? dynamic_base(rope, D, length) : rope.base;
  const Ramp ramp = rope.kind == RopeKind::kYarn ? yarn_ramp(rope, D) : Ramp{0, 1};
  const auto turned = static_cast<std::size_t>(std::floor(rope.share * static_cast<double>(D) / 2));
  std::vector<double> frequencies(half);
  for (std::size_t i = 0; i < half; ++i) {
    const double theta = frequency(base, i, D);
    switch (rope.kind) {
      case RopeKind::kDefault:
      case RopeKind::kDynamic:
        frequencies[i] = theta;
        break;
      case RopeKind::kLinear:
        frequencies[i] = theta / rope.factor;
        break;
      case RopeKind::kProportional:
        frequencies[i] = i < turned ? theta / rope.factor : 0;
        break;
      case RopeKind::kLlama3:
        frequencies[i] = llama3_frequency(rope, theta);
        break;
      case RopeKind::kYarn:
        frequencies[i] = theta / rope.factor * ramp.at(i) + theta * (1 - ramp.at(i));
        break;
    }
  }
  return frequencies;
}

double yarn_amplitude(double factor, std::optional<double> scale, std::optional<double> scale_all) {
  const auto amplitude = [factor](double of) {
    return factor <= 1 ? 1.0 : 0.1 * of * std::log(factor) + 1.0;
  };
  return scale && scale_all ? amplitude(*scale) / amplitude(*scale_all) : amplitude(1);
}

}  // namespace darkformer
