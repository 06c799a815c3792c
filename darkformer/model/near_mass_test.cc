// The near mass against softmax weights one by one, and the gate that starts from it.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/near_mass.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "darkformer/base/error.h"
#include "darkformer/base/philox.h"
#include "darkformer/model/attention_spec.h"

namespace darkformer::near_mass_test {
namespace {

using at::Tensor;

const MixerShape kShape = {3, 4, 2, 8, 0.5, 0.0, 0};

Tensor normal(at::IntArrayRef shape, std::uint32_t stream) {
  const Tensor x = at::empty(shape, at::kFloat);
  Philox(4, stream).fill_normal(
      std::span<float>(x.data_ptr<float>(), static_cast<std::size_t>(x.numel())));
  return x;
}

double plain_mass(const Tensor& q, const Tensor& k, std::int64_t window, std::int64_t sinks) {
  double sum = 0;
  std::int64_t tokens = 0;
  for (std::int64_t b = 0; b < q.size(0); ++b) {
    const Tensor scores = kShape.scale * at::matmul(q[b].to(at::kDouble), k[b].to(at::kDouble).t());
    for (std::int64_t t = window + sinks; t < q.size(1); ++t, ++tokens) {
      double near = 0, all = 0;
      for (std::int64_t s = 0; s <= t; ++s) {
        const double weight = std::exp(scores.data_ptr<double>()[t * scores.size(1) + s]);
        all += weight;
        near += s > t - window || s < sinks ? weight : 0;
      }
      sum += near / all;
    }
  }
  return sum / static_cast<double>(tokens);
}

TEST(NearMass, IsTheMeanSoftmaxWeightOfWindowAndSinks) {
  for (const std::int64_t T : {7, 300}) {  // less than a block of queries, and more
    const Tensor q = normal({2, 4, T, 8}, 1), k = normal({2, 2, T, 8}, 2);
    NearMass mass(kShape, 3, 2);
    mass.add(q, k);
    EXPECT_EQ(mass.tokens(), 2 * (T - 5));
    for (const std::int64_t h : {0, 3}) {
      EXPECT_NEAR(mass.mean()[static_cast<std::size_t>(h)],
                  plain_mass(q.select(1, h), k.select(1, h / 2), 3, 2), 1e-5);
    }
  }
}

TEST(NearMass, NeedsTokensThatSeeBeyond) {
  NearMass mass(kShape, 8, 0);
  mass.add(normal({1, 4, 8, 8}, 1), normal({1, 2, 8, 8}, 2));
  EXPECT_EQ(mass.tokens(), 0);
  EXPECT_THROW(mass.mean(), Error);
}

TEST(StartGate, FromTheMassOrTheGivenBias) {
  AttentionSpec spec{.kind = AttentionKind::kDark, .features = 4, .rank = 8, .window = 3};
  spec.gate = true;
  const auto mixer = make_mixer(kShape, spec, 1, 0);
  const auto of = [&](const char* name) { return mixer->named_parameters()[name].detach(); };
  NearMass mass(kShape, 3, 0);
  mass.add(normal({1, 4, 20, 8}, 1), normal({1, 2, 20, 8}, 2));
  const std::vector<double> near = mass.mean();
  const Tensor p = at::tensor(near, at::kDouble);
  for (const double c : {0.0, 0.25, 1.0}) {
    start_gate(*mixer, {.scale = c}, near);
    EXPECT_TRUE(of("gate_scale").eq(c).all().item<bool>());
    EXPECT_TRUE(
        at::allclose(of("gate_bias"), ((1 - c) * at::log(p / (1 - p))).to(at::kFloat), 1e-5, 1e-6));
  }
  start_gate(*mixer, {.scale = 0.0, .bias = -2.0}, near);
  EXPECT_TRUE(of("gate_bias").eq(-2).all().item<bool>());
  start_gate(*mixer, {}, {});
  EXPECT_TRUE(of("gate_bias").eq(0).all().item<bool>());
  start_gate(*make_mixer(kShape, {}, 1, 0), {}, near);  // nothing to start
}

}  // namespace
}  // namespace darkformer::near_mass_test
