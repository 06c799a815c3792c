// Softmax attention: a cache that grows, or a ring of the layer's sliding window.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "darkformer/model/mixer.h"

namespace darkformer {

// State: keys and values (B,G,capacity,D) and the number of tokens read (1). Without a window token
// s is row s; with one, row s % window.
class ExactMixer : public Mixer {
 public:
  explicit ExactMixer(const MixerShape& shape) : shape_(shape) {}

  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) override;
  at::Tensor extend(const at::Tensor& q,
                    const at::Tensor& k,
                    const at::Tensor& v,
                    MixerState& state) override;
  // Without a window the cache with the new tokens holds all that a sharer sees.
  at::Tensor extend_shared(const at::Tensor& q,
                           const at::Tensor& k,
                           const at::Tensor& v,
                           const MixerState& before,
                           const MixerState& after) override;
  bool shares_by_copy() const override { return shape_.window > 0; }
  std::int64_t state_bytes(std::int64_t tokens) const override;

 private:
  at::Tensor attend(const at::Tensor& q,
                    const at::Tensor& k,
                    const at::Tensor& v,
                    bool causal) const;
  at::Tensor extend_cache(const at::Tensor& q,
                          const at::Tensor& k,
                          const at::Tensor& v,
                          MixerState& state) const;
  at::Tensor extend_ring(const at::Tensor& q,
                         const at::Tensor& k,
                         const at::Tensor& v,
                         MixerState& state) const;

  MixerShape shape_;
};

}  // namespace darkformer
