// Fitting a mixer to softmax: its rows of attention weights are brought close to the exact rows of
// the same queries and keys.
// SPDX-License-Identifier: Apache-2.0
//
// With p_t = softmax_{s <= t}(scale q_t . k_s) (the layer's own soft cap and window included) and
// r_t the weights that the mixer gives the same keys,
//   minimise   mean over tokens and heads of   KL_t = sum_s p_ts (log p_ts - log r_ts)
// over tensors of the mixer alone: queries and keys stay, no gradient passes through a model.
// The weights are what a mixer makes of the identity as values, so that every kind, with window,
// sinks, gate and all, is fitted as it runs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "darkformer/model/mixer.h"

namespace darkformer {

// Queries and keys of W windows of T tokens, as a mixer gets them: rotated, not scaled.
struct RowExamples {
  at::Tensor q;           // (W,H,T,D)
  at::Tensor k;           // (W,G,T,D)
  std::int64_t held = 0;  // of the W, the last ones, to measure on
};

// Tensors that are fitted, by what they are for; of a mixer those that it learns, and the centres of
// one that learns its factor or its draws.
enum class FitPart : std::uint8_t {
  kFactor,     // factor
  kKeyFactor,  // key_factor
  kDraws,      // draws
  kCentres,    // query_center, key_center
  kGate,       // gate_scale, gate_bias, gate_weight
};

// The numbers were chosen on stories15M, the rate of 3e-2 against 1e-2 (docs/decisions/0016).
struct RowFitOptions {
  std::vector<FitPart> parts = {};
  std::int64_t steps = 400;
  std::int64_t batch = 2;    // windows of a step
  double rate = 3e-2;        // of Adam at the first step,
  double final_share = 0.1;  // and this much of it at the last, along a cosine
};

// Mean KL of the held-out rows (of all rows where none is held out), one number a head (H).
struct RowFit {
  std::vector<double> before, after;
};

// The weights (B,H,T,T) that a mixer gives, and those of exact attention of this shape.
at::Tensor mixer_rows(Mixer& mixer, const at::Tensor& q, const at::Tensor& k);
at::Tensor exact_rows(const MixerShape& shape, const at::Tensor& q, const at::Tensor& k);

// Mean over windows and tokens of KL(p | r) for rows (B,H,T,T): (H), double. Weights below
// kLeastWeight count as that.
inline constexpr double kLeastWeight = 1e-12;
at::Tensor row_kl(const at::Tensor& p, const at::Tensor& r);

// Fits; `each` is called after every step and may throw to stop. Where the fit did not help on the
// held-out rows the mixer keeps what it had. A function of its arguments alone.
RowFit fit_rows(Mixer& mixer,
                const MixerShape& shape,
                const RowExamples& examples,
                const RowFitOptions& options,
                const std::function<void()>& each = {});

}  // namespace darkformer
