// The parts of feature attention against the formulas of the window, the far field and the gate,
// key by key in double.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "darkformer/base/philox.h"
#include "darkformer/model/attention_spec.h"
#include "darkformer/model/feature_mixer.h"
#include "darkformer/model/near_mass.h"

namespace darkformer::feature_parts_test {
namespace {

using at::Tensor;

constexpr std::int64_t kTokens = 21, kHeads = 4, kGroups = 2, kSize = 6, kFeatures = 10;
const MixerShape kShape = {0, kHeads, kGroups, kSize, 0.4, 0.0, 0};
constexpr double kTolerance = 2e-5;  // float32 sums of 21 terms of order 1

Tensor normal(at::IntArrayRef shape, std::uint32_t stream, double size = 1.0) {
  const Tensor x = at::empty(shape, at::kFloat);
  Philox(11, stream)
      .fill_normal(std::span<float>(x.data_ptr<float>(), static_cast<std::size_t>(x.numel())));
  return x * size;
}

AttentionSpec gated_spec(std::int64_t window, std::int64_t sinks) {
  AttentionSpec spec;
  spec.kind = AttentionKind::kDark;
  spec.features = kFeatures, spec.rank = kSize;
  spec.window = window, spec.sinks = sinks;
  spec.centre = true, spec.gate = window > 0;
  return spec;
}

std::shared_ptr<Mixer> stirred(const AttentionSpec& spec) {
  const auto mixer = make_mixer(kShape, spec, 5, 0);
  const at::NoGradGuard no_gradients;
  std::uint32_t stream = 100;
  for (const auto& entry : mixer->named_parameters()) {
    entry.value().add_(normal(entry.value().sizes(), stream++, 0.3));
  }
  for (const auto& entry : mixer->named_buffers()) {
    entry.value().add_(normal(entry.value().sizes(), stream++, 0.3));
  }
  return mixer;
}

struct Inputs {
  Tensor q = normal({1, kHeads, kTokens, kSize}, 1), k = normal({1, kGroups, kTokens, kSize}, 2),
         v = normal({1, kGroups, kTokens, kSize}, 3);
};

// One head's kernels, key by key.
class Plain {
 public:
  Plain(const Mixer& mixer, const AttentionSpec& spec, const Inputs& in, std::int64_t head)
      : spec_(spec) {
    const std::int64_t g = head / (kHeads / kGroups);
    const auto of = [&](const char* name, std::int64_t i) {
      for (const auto& entry : mixer.named_parameters()) {
        if (entry.key() == name) {
          return entry.value().detach()[i].to(at::kDouble);
        }
      }
      return mixer.named_buffers()[name][i].to(at::kDouble);
    };
    const double root = std::sqrt(kShape.scale);
    const Tensor map = of("factor", g), draws = of("draws", g), a = of("query_center", g);
    const Tensor q = in.q[0][head].to(at::kDouble), k = in.k[0][g].to(at::kDouble);
    v = in.v[0][g].to(at::kDouble);
    const Tensor uq = root * (q - a).matmul(map.t());                    // (T,R)
    const Tensor uk = root * (k - of("key_center", g)).matmul(map.t());  // (T,R)
    const Tensor m = root * map.matmul(a);                               // (R)
    scores_ = spec.near == NearKernel::kModel
                  ? kShape.scale * q.matmul((k - of("key_center", g)).t())
                  : (uq + m).matmul(uk.t());                                     // (T,T)
    const Tensor log_q = uq.matmul(draws.t()) - 0.5 * uq.square().sum(1, true);  // (T,F)
    const Tensor log_k =
        uk.matmul(draws.t()) - 0.5 * uk.square().sum(1, true) + uk.matmul(m).unsqueeze(1);
    estimates_ = log_q.exp().matmul(log_k.exp().t()) / static_cast<double>(kFeatures);
    if (spec.gate) {
      c_ = of("gate_scale", head).item<double>();
      bias_ = of("gate_bias", head).item<double>() + uq.matmul(of("gate_weight", head));
    }
  }

  bool is_near(std::int64_t t, std::int64_t s) const {
    return s > t - spec_.window || s < spec_.sinks;
  }

  // Row t by a part.
  Tensor row(AttentionPart part, std::int64_t t) const {
    Tensor near = at::zeros({kSize}, at::kDouble), far = near.clone(), mean = near.clone(),
           all = near.clone();
    double near_sum = 0, far_sum = 0, all_sum = 0;
    std::int64_t far_keys = 0;
    for (std::int64_t s = 0; s <= t; ++s) {
      const double exact = std::exp(scores_[t][s].item<double>());
      const double estimate = estimates_[t][s].item<double>();
      all += estimate * v[s], all_sum += estimate;
      if (is_near(t, s)) {
        near += exact * v[s], near_sum += exact;
      }
      if (!is_near(t, s) || spec_.far == FarKeys::kAll) {
        far += estimate * v[s], far_sum += estimate, mean += v[s], ++far_keys;
      }
    }
    if (part == AttentionPart::kLinear) {
      return all / all_sum;
    }
    if (part == AttentionPart::kWindow || far_keys == 0) {
      return near / near_sum;
    }
    if (near_sum == 0) {
      return mean / static_cast<double>(far_keys);
    }
    const double ratio = std::log(near_sum / far_sum);
    const double x = spec_.gate ? c_ * ratio + bias_[t].item<double>() : ratio;
    const double share = 1.0 / (1.0 + std::exp(-x));
    const Tensor rest =
        part == AttentionPart::kConstantFar ? mean / static_cast<double>(far_keys) : far / far_sum;
    return share * near / near_sum + (1.0 - share) * rest;
  }

  Tensor v;

 private:
  AttentionSpec spec_;
  Tensor scores_, estimates_, bias_;
  double c_ = 0;
};

void expect_part(AttentionPart part, const AttentionSpec& spec) {
  const auto mixer = stirred(spec);
  const Inputs in;
  const Tensor got = mixer->forward_part(part, in.q, in.k, in.v);
  for (std::int64_t h = 0; h < kHeads; ++h) {
    const Plain plain(*mixer, spec, in, h);
    for (std::int64_t t = 0; t < kTokens; ++t) {
      const Tensor gap = (got[0][h][t].to(at::kDouble) - plain.row(part, t)).abs().max();
      EXPECT_LT(gap.item<double>(), kTolerance) << "part " << static_cast<int>(part) << ", window "
                                                << spec.window << ", head " << h << ", token " << t;
    }
  }
}

TEST(FeatureParts, EachEqualsItsFormula) {
  for (const AttentionPart part : {AttentionPart::kAll, AttentionPart::kWindow,
                                   AttentionPart::kLinear, AttentionPart::kConstantFar}) {
    expect_part(part, gated_spec(4, 2));
    expect_part(part, gated_spec(5, 0));
    AttentionSpec common = gated_spec(3, 1);
    common.gate = false;
    expect_part(part, common);
    for (AttentionSpec own : {gated_spec(4, 2), common}) {
      own.near = NearKernel::kModel;
      expect_part(part, own);
      own.far = FarKeys::kAll;
      expect_part(part, own);
    }
  }
}

TEST(FeatureParts, WithoutAWindowAllIsLinear) {
  const AttentionSpec spec = gated_spec(0, 0);
  expect_part(AttentionPart::kLinear, spec);
  expect_part(AttentionPart::kConstantFar, spec);
  const auto mixer = stirred(spec);
  const Inputs in;
  EXPECT_TRUE(mixer->forward(in.q, in.k, in.v)
                  .equal(mixer->forward_part(AttentionPart::kLinear, in.q, in.k, in.v)));
}

TEST(FeatureParts, OtherMixersAreUsedWhole) {
  const auto mixer = make_mixer(kShape, {}, 5, 0);
  const Inputs in;
  EXPECT_TRUE(mixer->forward(in.q, in.k, in.v)
                  .equal(mixer->forward_part(AttentionPart::kWindow, in.q, in.k, in.v)));
}

}  // namespace
}  // namespace darkformer::feature_parts_test
