// Rows of mixers against softmax written out, and what a fit changes and what it leaves.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/conversion/row_fit.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "darkformer/base/threads.h"
#include "darkformer/conversion/layer_fit.h"
#include "darkformer/model/attention_spec.h"

namespace darkformer::row_fit_test {
namespace {

using at::Tensor;

constexpr std::int64_t kT = 24;

// Queries and keys as pretrained models have them: of very different sizes, and with means.
Tensor stretched(std::vector<std::int64_t> sizes, std::uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  const Tensor x = at::randn(sizes, generator);
  const Tensor sizes_of = at::linspace(3.0, 0.2, sizes.back());
  return x * sizes_of + 0.5 * sizes_of;
}

RowExamples examples(const MixerShape& shape, std::int64_t windows = 8) {
  return {stretched({windows, shape.heads, kT, shape.head_dim}, 1),
          stretched({windows, shape.kv_heads, kT, shape.head_dim}, 2), 2};
}

MixerShape small_shape() {
  return {.layer = 1, .heads = 4, .kv_heads = 2, .head_dim = 8, .scale = 0.35};
}

AttentionSpec dark_spec() {
  return {.kind = AttentionKind::kDark, .features = 12, .rank = 8};
}

double mean(const std::vector<double>& x) {
  double sum = 0.0;
  for (const double value : x) {
    sum += value / static_cast<double>(x.size());
  }
  return sum;
}

// The formulas of row_fit.h, loops in double.
double kl_of_head(const MixerShape& shape, Mixer& mixer, const RowExamples& x, std::int64_t head) {
  const Tensor r = mixer_rows(mixer, x.q, x.k).to(at::kDouble);
  const Tensor q = x.q.to(at::kDouble), k = x.k.to(at::kDouble);
  const std::int64_t kv = head / (shape.heads / shape.kv_heads), W = q.size(0);
  double sum = 0.0;
  for (std::int64_t w = 0; w < W; ++w) {
    for (std::int64_t t = 0; t < kT; ++t) {
      std::vector<double> logits;
      double total = 0.0;
      for (std::int64_t s = 0; s <= t; ++s) {
        const double dot = (q[w][head][t] * k[w][kv][s]).sum().item<double>();
        const double scaled = shape.scale * dot;
        logits.push_back(shape.softcap > 0 ? shape.softcap * std::tanh(scaled / shape.softcap)
                                           : scaled);
        total += std::exp(logits.back());
      }
      for (std::int64_t s = 0; s <= t; ++s) {
        const double p = std::exp(logits[static_cast<std::size_t>(s)]) / total;
        const double got = std::max(r[w][head][t][s].item<double>(), kLeastWeight);
        sum += p * (std::log(std::max(p, kLeastWeight)) - std::log(got));
      }
    }
  }
  return sum / static_cast<double>(W * kT);
}

TEST(RowFit, RowsAndTheirKlAreWhatTheFormulasSay) {
  MixerShape shape = small_shape();
  shape.softcap = 20.0;
  const RowExamples x = examples(shape, 2);
  for (const std::int64_t window : {0, 3}) {
    AttentionSpec spec = dark_spec();
    spec.window = window, spec.sinks = window > 0 ? 1 : 0, spec.gate = window > 0;
    const auto mixer = make_mixer(shape, spec, 5, 0);
    const Tensor p = exact_rows(shape, x.q, x.k), r = mixer_rows(*mixer, x.q, x.k);
    EXPECT_TRUE(at::allclose(p.sum(-1), at::ones({2, 4, kT}), 1e-5, 1e-5));
    EXPECT_TRUE(at::allclose(r.sum(-1), at::ones({2, 4, kT}), 1e-5, 1e-5));
    const Tensor kl = row_kl(p, r);
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      const double wanted = kl_of_head(shape, *mixer, x, h);
      EXPECT_NEAR(kl[h].item<double>(), wanted, 1e-4 * (1.0 + wanted));
    }
  }
}

TEST(RowFit, BringsEveryKindCloserOnRowsItHasNotSeen) {
  const MixerShape shape = small_shape();
  const RowExamples x = examples(shape, 42);
  std::vector<AttentionSpec> specs(7, dark_spec());
  specs[1].window = 3, specs[1].gate = true, specs[1].near = NearKernel::kModel;
  specs[2].rank = 5, specs[2].centre = true;
  specs[3].placement = Placement::kQueryHead, specs[3].learned_draws = true;
  specs[4].placement = Placement::kLayer;
  specs[5] = {
      .kind = AttentionKind::kHedgehog, .features = 12, .rank = 8, .near = NearKernel::kModel};
  specs[6].own_key_factor = true, specs[6].centre = true;
  specs.push_back({.kind = AttentionKind::kLfk, .features = 12, .rank = 8, .centre = true});
  for (const AttentionSpec& spec : specs) {
    const auto mixer = make_mixer(shape, spec, 5, 0);
    const RowFit fit = fit_layer(*mixer, nullptr, shape, spec, x,
                                 {.parts = {FitPart::kFactor, FitPart::kKeyFactor, FitPart::kDraws,
                                            FitPart::kCentres, FitPart::kGate},
                                  .steps = 80});
    ASSERT_EQ(fit.before.size(), 4U);
    ASSERT_EQ(fit.after.size(), 4U);
    EXPECT_LT(mean(fit.after), 0.8 * mean(fit.before)) << attention_kind_name(spec.kind);
    // The layer's mixer is what was measured.
    const Tensor held_q = x.q.slice(0, 40), held_k = x.k.slice(0, 40);
    const Tensor kl = row_kl(exact_rows(shape, held_q, held_k), mixer_rows(*mixer, held_q, held_k));
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      EXPECT_NEAR(kl[h].item<double>(), fit.after[static_cast<std::size_t>(h)], 1e-5);
    }
  }
}

TEST(RowFit, LeavesWhatItWasNotAskedToFit) {
  const MixerShape shape = small_shape();
  AttentionSpec spec = dark_spec();
  spec.window = 3, spec.gate = true, spec.centre = true;
  const auto mixer = make_mixer(shape, spec, 5, 0);
  const auto before = mixer->named_parameters(), buffers = mixer->named_buffers();
  const Tensor draws = buffers["draws"].clone(), bias = before["gate_bias"].detach().clone(),
               factor = before["factor"].detach().clone(), center = buffers["key_center"].clone();
  const Tensor q_before = examples(shape).q.clone();
  const RowExamples x = examples(shape);
  fit_rows(*mixer, shape, x, {.parts = {FitPart::kFactor}, .steps = 5});
  EXPECT_FALSE(at::equal(mixer->named_parameters()["factor"], factor));
  EXPECT_TRUE(at::equal(mixer->named_parameters()["gate_bias"], bias));
  EXPECT_TRUE(at::equal(mixer->named_buffers()["draws"], draws));
  EXPECT_TRUE(at::equal(mixer->named_buffers()["key_center"], center));
  EXPECT_TRUE(at::equal(x.q, q_before));
  for (const auto& item : mixer->named_buffers()) {
    EXPECT_FALSE(item.value().requires_grad());
  }
  EXPECT_FALSE(mixer->named_parameters()["factor"].grad().defined());
}

// Draws and maps that an estimator was given, and their centres, are what it is: only the gate that
// joins it to a window is fitted.
TEST(RowFit, LeavesEstimatorsThatLearnNothingAsTheyAre) {
  const MixerShape shape = small_shape();
  for (const AttentionKind kind :
       {AttentionKind::kPerformer, AttentionKind::kImportance, AttentionKind::kAderf}) {
    const AttentionSpec spec = {
        .kind = kind, .features = 12, .rank = 8, .window = 3, .centre = true, .gate = true};
    const auto mixer = make_mixer(shape, spec, 5, 0);
    std::vector<Tensor> before;
    for (const Tensor& buffer : mixer->buffers()) {
      before.push_back(buffer.clone());
    }
    const Tensor bias = mixer->named_parameters()["gate_bias"].detach().clone();
    fit_layer(*mixer, nullptr, shape, spec, examples(shape),
              {.parts = {FitPart::kFactor, FitPart::kDraws, FitPart::kCentres, FitPart::kGate},
               .steps = 20});
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_TRUE(at::equal(mixer->buffers()[i], before[i])) << attention_kind_name(kind);
    }
    EXPECT_FALSE(at::equal(mixer->named_parameters()["gate_bias"], bias));
  }
}

TEST(RowFit, KeepsTheStartWhereItDoesNotHelp) {
  const MixerShape shape = small_shape();
  const auto mixer = make_mixer(shape, dark_spec(), 5, 0);
  const Tensor factor = mixer->named_parameters()["factor"].detach().clone();
  const RowFit fit = fit_rows(*mixer, shape, examples(shape),
                              {.parts = {FitPart::kFactor}, .steps = 3, .rate = 50.0});
  EXPECT_EQ(fit.before, fit.after);
  EXPECT_TRUE(at::equal(mixer->named_parameters()["factor"], factor));
}

// A head is fitted on one thread; the number of threads decides only how many are at once.
TEST(RowFit, HasTheSameBitsForEveryNumberOfThreads) {
  const int threads_before = threads();
  for (const std::int64_t kv_heads : {1, 2}) {
    MixerShape shape = small_shape();
    shape.kv_heads = kv_heads;
    const RowExamples x = examples(shape);
    AttentionSpec spec = dark_spec();
    spec.window = 3, spec.gate = true, spec.near = NearKernel::kModel;
    std::vector<Tensor> factors;
    for (const int count : {1, 2, 3}) {
      set_threads(count);
      const auto mixer = make_mixer(shape, spec, 5, 0);
      fit_layer(*mixer, nullptr, shape, spec, x,
                {.parts = {FitPart::kFactor, FitPart::kGate}, .steps = 8});
      factors.push_back(mixer->named_parameters()["factor"].detach().clone());
    }
    EXPECT_TRUE(at::equal(factors[0], factors[1]));
    EXPECT_TRUE(at::equal(factors[0], factors[2]));
  }
  set_threads(threads_before);
}

TEST(RowFit, StopsWhereItIsTold) {
  const MixerShape shape = small_shape();
  const auto mixer = make_mixer(shape, dark_spec(), 5, 0);
  int steps = 0;
  EXPECT_THROW(fit_rows(*mixer, shape, examples(shape), {.parts = {FitPart::kFactor}, .steps = 50},
                        [&] {
                          if (++steps == 3) {
                            throw std::runtime_error("stop");
                          }
                        }),
               std::runtime_error);
  EXPECT_EQ(steps, 3);
}

}  // namespace
}  // namespace darkformer::row_fit_test
