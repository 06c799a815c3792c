// The baselines that look nowhere: constant attention (the mean of the visible values) and random
// attention.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "darkformer/model/mixer.h"

namespace darkformer {

// State: the sum of the values (B,G,D) in double, and the tokens read (1).
class ConstantMixer : public Mixer {
 public:
  explicit ConstantMixer(const MixerShape& shape) : shape_(shape) {}

  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) override;
  at::Tensor extend(const at::Tensor& q,
                    const at::Tensor& k,
                    const at::Tensor& v,
                    MixerState& state) override;
  std::int64_t state_bytes(std::int64_t tokens) const override;

 private:
  MixerShape shape_;
};

// Uniform random weights, a function of (seed, draw index, layer, head, t, s). State: the values
// (B,G,tokens,D).
class RandomMixer : public Mixer {
 public:
  RandomMixer(const MixerShape& shape, std::uint64_t seed, std::int64_t draw_index)
      : shape_(shape), seed_(seed), draw_index_(draw_index) {}

  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) override;
  at::Tensor extend(const at::Tensor& q,
                    const at::Tensor& k,
                    const at::Tensor& v,
                    MixerState& state) override;
  std::int64_t state_bytes(std::int64_t tokens) const override;
  void redraw(std::uint64_t seed, std::int64_t draw_index) override;

 private:
  at::Tensor mix(const at::Tensor& v, std::int64_t start) const;

  MixerShape shape_;
  std::uint64_t seed_;
  std::int64_t draw_index_;
};

}  // namespace darkformer
