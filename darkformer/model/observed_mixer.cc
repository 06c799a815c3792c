// A mixer around a mixer.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/observed_mixer.h"

namespace darkformer {
namespace {

using at::Tensor;

class ObservedMixer : public Mixer {
 public:
  ObservedMixer(std::shared_ptr<Mixer> inner, MixerObserver observer)
      : inner_(std::move(inner)), observer_(std::move(observer)) {}

  Tensor forward(const Tensor& q, const Tensor& k, const Tensor& v) override {
    return tell(q, k, v, inner_->forward(q, k, v));
  }
  Tensor extend(const Tensor& q, const Tensor& k, const Tensor& v, MixerState& state) override {
    return tell(q, k, v, inner_->extend(q, k, v, state));
  }
  Tensor extend_shared(const Tensor& q,
                       const Tensor& k,
                       const Tensor& v,
                       const MixerState& before,
                       const MixerState& after) override {
    return tell(q, k, v, inner_->extend_shared(q, k, v, before, after));
  }
  bool shares_by_copy() const override { return inner_->shares_by_copy(); }
  Tensor map_queries(const Tensor& q) override { return inner_->map_queries(q); }
  Tensor map_keys(const Tensor& k) override { return inner_->map_keys(k); }
  std::int64_t state_bytes(std::int64_t tokens) const override {
    return inner_->state_bytes(tokens);
  }

 private:
  Tensor tell(const Tensor& q, const Tensor& k, const Tensor& v, Tensor out) {
    observer_({q, k, v, out});
    return out;
  }

  std::shared_ptr<Mixer> inner_;
  MixerObserver observer_;
};

}  // namespace

std::shared_ptr<Mixer> observed_mixer(std::shared_ptr<Mixer> inner, MixerObserver observer) {
  return std::make_shared<ObservedMixer>(std::move(inner), std::move(observer));
}

}  // namespace darkformer
