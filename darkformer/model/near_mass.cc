// Softmax weights by blocks of queries, and the start of the gate.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/near_mass.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/ops/linear.h"

namespace darkformer {
namespace {

using at::Tensor;

constexpr std::int64_t kQueryBlock = 256;  // queries of a block of scores
constexpr double kLeastMass = 1e-3;        // a gate nearer to 0 or 1 would hardly learn

// Far weights, summed over the queries of one head: q (t,D), the last of the keys k (t1,D), all of
// them at least window + sinks behind the first.
double far_weight(
    const Tensor& q, const Tensor& k, std::int64_t window, std::int64_t sinks, double scale) {
  const std::int64_t t = q.size(0), t1 = k.size(0);
  const Tensor later = at::ones({t, t1}, at::kBool).triu(t1 - t + 1);
  const Tensor scores = (scale * ops::linear(q.contiguous(), k.contiguous()))
                            .masked_fill(later, -std::numeric_limits<double>::infinity());
  const Tensor far = at::softmax(scores, -1).tril(t1 - t - window).slice(1, sinks);  // (t,far)
  return far.to(at::kDouble).sum().item<double>();
}

Tensor* find_parameter(Mixer& mixer, const std::string& name, Tensor& found) {
  for (const auto& entry : mixer.named_parameters()) {
    if (entry.key() == name) {
      found = entry.value();
      return &found;
    }
  }
  return nullptr;
}

}  // namespace

NearMass::NearMass(const MixerShape& shape, std::int64_t window, std::int64_t sinks)
    : shape_(shape), window_(window), sinks_(sinks), sums_(at::zeros({shape.heads}, at::kDouble)) {}

void NearMass::add(const Tensor& q, const Tensor& k) {
  const at::NoGradGuard no_gradients;
  const std::int64_t B = q.size(0), H = q.size(1), G = k.size(1), T = q.size(2);
  const std::int64_t first = window_ + sinks_;  // the first token with a far key
  for (std::int64_t t0 = first; t0 < T; t0 += kQueryBlock) {
    const std::int64_t t1 = std::min(T, t0 + kQueryBlock);
    for (std::int64_t b = 0; b < B; ++b) {
      for (std::int64_t h = 0; h < H; ++h) {
        const Tensor queries = q[b][h].slice(0, t0, t1), keys = k[b][h / (H / G)].slice(0, 0, t1);
        sums_.data_ptr<double>()[h] +=
            static_cast<double>(t1 - t0) - far_weight(queries, keys, window_, sinks_, shape_.scale);
      }
    }
    tokens_ += B * (t1 - t0);
  }
}

std::vector<double> NearMass::mean() const {
  require(tokens_ > 0, "layer ", shape_.layer, ": no token sees a key beyond a window of ", window_,
          " and ", count_text(sinks_, "sink"), "; read longer stretches (--context)");
  const Tensor mean = sums_ / tokens_;
  return {mean.data_ptr<double>(), mean.data_ptr<double>() + mean.numel()};
}

void start_gate(Mixer& mixer, const GateStart& start, const std::vector<double>& near_mass) {
  const at::NoGradGuard no_gradients;
  Tensor scale, bias;
  if (find_parameter(mixer, "gate_scale", scale) == nullptr ||
      find_parameter(mixer, "gate_bias", bias) == nullptr) {
    return;
  }
  scale.fill_(start.scale);
  if (start.bias || near_mass.empty()) {
    bias.fill_(start.bias.value_or(0.0));
    return;
  }
  const Tensor p = at::tensor(near_mass, at::kDouble).clamp(kLeastMass, 1.0 - kLeastMass);
  bias.copy_((1.0 - start.scale) * at::log(p / (1.0 - p)));
}

}  // namespace darkformer
