// Other mixers in a model's layers for a while, and the model's own back at the end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "darkformer/model/gemma.h"

namespace darkformer {

// `wrap` gives the mixer that stands in for a layer's own while the object lives.
class MixerOverlay {
 public:
  using Wrap =
      std::function<std::shared_ptr<Mixer>(std::int64_t layer, std::shared_ptr<Mixer> inner)>;

  MixerOverlay(Gemma& model, const Wrap& wrap);
  ~MixerOverlay();
  MixerOverlay(const MixerOverlay&) = delete;
  MixerOverlay& operator=(const MixerOverlay&) = delete;

 private:
  Gemma& model_;
  std::vector<std::shared_ptr<Mixer>> mixers_;
};

// A mixer that leaves everything to another: what a stand-in does not change.
class WrappedMixer : public Mixer {
 public:
  explicit WrappedMixer(std::shared_ptr<Mixer> inner) : inner_(std::move(inner)) {}

  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) override {
    return inner_->forward(q, k, v);
  }
  at::Tensor extend(const at::Tensor& q,
                    const at::Tensor& k,
                    const at::Tensor& v,
                    MixerState& state) override {
    return inner_->extend(q, k, v, state);
  }
  at::Tensor map_queries(const at::Tensor& q) override { return inner_->map_queries(q); }
  at::Tensor map_keys(const at::Tensor& k) override { return inner_->map_keys(k); }
  std::int64_t state_bytes(std::int64_t tokens) const override {
    return inner_->state_bytes(tokens);
  }

 protected:
  const std::shared_ptr<Mixer>& inner() const { return inner_; }

 private:
  std::shared_ptr<Mixer> inner_;
};

}  // namespace darkformer
