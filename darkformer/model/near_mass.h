// How much of a layer's attention falls on the keys that a window would keep exact, and the gate
// that starts from it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "darkformer/model/mixer.h"

namespace darkformer {

// Sums over tokens: the softmax weight of the last `window` keys and the first `sinks` ones, for
// every query head; of those tokens alone that see a key beyond.
class NearMass {
 public:
  NearMass(const MixerShape& shape, std::int64_t window, std::int64_t sinks);

  // q (B,H,T,D), k (B,G,T,D) as a mixer gets them. Memory: a block of queries against all keys.
  void add(const at::Tensor& q, const at::Tensor& k);

  std::int64_t tokens() const { return tokens_; }
  std::vector<double> mean() const;  // of each head; Error where tokens() is 0

 private:
  MixerShape shape_;
  std::int64_t window_, sinks_;
  std::int64_t tokens_ = 0;
  at::Tensor sums_;  // (H), double
};

// c where nobody gave another: of a gate that starts from the near mass, and of one that knows
// nothing of it and must tell near from far by the normalisers (docs/window.md has the numbers).
inline constexpr double kCalibratedGateScale = 0.0, kGateScale = 0.5;

// Where the gate  g = sigmoid(c (log Zn - log Zf) + b + u . M q')  starts.
struct GateStart {
  double scale = kGateScale;        // c
  std::optional<double> bias = {};  // b of every head; none: from the near mass, or 0
};

// c <- scale;  b <- bias, or  (1 - c) log(p / (1 - p))  with p the near mass of the head, so that a
// gate of c = 0 gives the window its average share, and one of c = 1 stays a common normaliser; u
// stays 0. Nothing for a mixer without a gate. near_mass: one number a head, or none.
void start_gate(Mixer& mixer, const GateStart& start, const std::vector<double>& near_mass);

}  // namespace darkformer
