// Rows of attention, their predicted error and that of drawn features, against plain references.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/predicted_error.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "darkformer/estimators/output_variance.h"
#include "darkformer/evaluation/measured_error.h"
#include "darkformer/model/conversion.h"
#include "darkformer/model/matrix_tensors.h"

namespace darkformer::predicted_error_test {
namespace {

using at::Tensor;

constexpr std::int64_t kTokens = 40;
const MixerShape kShape = {2, 4, 2, 6, 0.3, 0.0, 0};

// One sequence through an exact layer, its inputs anisotropic and off centre.
struct Sequence {
  explicit Sequence(const MixerShape& shape = kShape, double size = 1.0) {
    at::manual_seed(5);
    const Tensor map = at::diag(at::linspace(0.4, 1.6, 6));
    q = size * (at::matmul(at::randn({1, 4, kTokens, 6}), map) + 0.5 * at::randn({4, 1, 6}));
    k = size * (at::matmul(at::randn({1, 2, kTokens, 6}), map) + 0.5 * at::randn({2, 1, 6}));
    v = at::randn({1, 2, kTokens, 6});
    out = make_mixer(shape, {}, 1, 0)->forward(q, k, v);
    moments.add(q, k);
  }
  MixerCall call() const { return {q, k, v, out}; }

  Tensor q, k, v, out;
  LayerMoments moments{4, 2, 6};
};

AttentionSpec spec_of(AttentionKind kind, bool centre) {
  AttentionSpec spec;
  spec.kind = kind;
  spec.features = spec.rank = 6;
  spec.centre = centre;
  return spec;
}

double largest(const Tensor& x) {
  return x.abs().max().item<double>();
}

TEST(AttentionRows, AreThoseOfTheLayer) {
  for (const std::int64_t window : {0, 7}) {
    for (const double softcap : {0.0, 1.5}) {
      MixerShape shape = kShape;
      shape.window = window;
      shape.softcap = softcap;
      const Sequence sequence(shape);
      for (const std::int64_t g : {0, 1}) {
        const AttentionRows rows = attention_rows(sequence.call(), shape, g, 7);
        ASSERT_EQ(rows.q.size(0), 14);
        EXPECT_EQ(rows.positions[6].item<std::int64_t>(), kTokens - 1);
        for (std::int64_t i = 0; i < 14; ++i) {
          const Tensor want =
              sequence.out[0][2 * g + i / 7][rows.positions[i].item<std::int64_t>()];
          EXPECT_LT(largest(rows.out[i] - want.to(at::kDouble)), 1e-5);
        }
      }
    }
  }
}

TEST(AttentionRows, MassWithinWindowsAndOnSinks) {
  const Sequence sequence;
  const AttentionRows rows = attention_rows(sequence.call(), kShape, 1, kTokens);
  const AttentionReach reach = attention_reach(rows, {1, 5, 20, 21}, {1, 3});
  for (std::int64_t head = 0; head < 2; ++head) {
    double near = 0.0, first = 0.0;
    for (std::int64_t t = kTokens / 2; t < kTokens; ++t) {
      const Tensor weights = rows.weights[head * kTokens + t];
      near += weights.slice(0, t - 4, t + 1).sum().item<double>() / (kTokens / 2);
      first += weights.slice(0, 0, 3).sum().item<double>() / (kTokens / 2);
    }
    const auto h = static_cast<std::size_t>(head);
    EXPECT_NEAR(reach.windows[h][1], near, 1e-9);
    EXPECT_NEAR(reach.sinks[h][1], first, 1e-9);
    EXPECT_GT(reach.windows[h][2], reach.windows[h][1]);
    EXPECT_TRUE(std::isnan(reach.windows[h][3]));  // 40 tokens are too few for a window of 21
  }
  const AttentionReach mean = mean_reach({reach, reach, reach, reach}, 2);
  ASSERT_EQ(mean.windows.size(), 4U);
  EXPECT_NEAR(mean.windows[3][1], reach.windows[1][1], 1e-12);
}

TEST(AttentionRows, KeysAreDrawnByTheirAttention) {
  const Sequence sequence;
  const AttentionRows rows = attention_rows(sequence.call(), kShape, 0, kTokens);
  const Tensor low = attended_keys(rows, at::zeros({2 * kTokens}, at::kDouble));
  const Tensor high = attended_keys(rows, at::full({2 * kTokens}, 1.0 - 1e-12, at::kDouble));
  EXPECT_EQ(largest(low), 0.0);
  EXPECT_TRUE(high.le(rows.positions).all().item<bool>());
  const Tensor half = attended_keys(rows, at::full({2 * kTokens}, 0.5, at::kDouble));
  for (const std::int64_t i : {3, 17, 70}) {
    const Tensor sums = rows.weights[i].cumsum(0);
    const auto key = half[i].item<std::int64_t>();
    EXPECT_GT(sums[key].item<double>(), 0.5);
    EXPECT_TRUE(key == 0 || sums[key - 1].item<double>() <= 0.5);
  }
}

TEST(PredictedRows, EqualTheReference) {
  const std::vector<std::int64_t> features = {16, 200};
  for (const double size : {0.6, 2.5}) {
    const Sequence sequence(kShape, size);
    for (const AttentionKind kind :
         {AttentionKind::kPerformer, AttentionKind::kSderf, AttentionKind::kAderf}) {
      for (const bool centre : {false, true}) {
        const auto families = fitted_families(spec_of(kind, centre), kShape, sequence.moments, 2);
        const AttentionRows rows = attention_rows(sequence.call(), kShape, 1, 5);
        const PredictedRows predicted = predict_rows(rows, families[1], features);
        const estimators::Matrix q = matrix_of(rows.q);
        for (std::size_t i = 0; i < q.rows(); ++i) {
          const std::int64_t seen =
              rows.positions[static_cast<std::int64_t>(i)].item<std::int64_t>() + 1;
          const estimators::Matrix k = matrix_of(rows.k.slice(0, 0, seen)),
                                   v = matrix_of(rows.v.slice(0, 0, seen));
          const auto at = static_cast<std::int64_t>(i);
          const double scale = estimators::squared_norm(v.values());
          EXPECT_NEAR(predicted.log_variance[at].item<double>(),
                      estimators::log_output_variance(families[1], q.row(i), k, v), 1e-2);
          for (std::size_t f = 0; f < features.size(); ++f) {
            const double want = estimators::predicted_error2(
                families[1], static_cast<double>(features[f]), q.row(i), k, v);
            // Products in float32; v as a whole is what they are rounded against.
            EXPECT_NEAR(predicted.error2[f][at].item<double>(), want, 1e-5 * scale + 1e-3 * want)
                << attention_kind_name(kind) << ", row " << i << ", size " << size;
          }
        }
      }
    }
  }
}

TEST(PredictedRows, ASoftCapIsABias) {
  MixerShape shape = kShape;
  shape.softcap = 0.5;
  const Sequence sequence(shape, 2.0);
  const auto families =
      fitted_families(spec_of(AttentionKind::kPerformer, false), shape, sequence.moments, 2);
  const AttentionRows rows = attention_rows(sequence.call(), shape, 0, 5);
  const PredictedRows predicted = predict_rows(rows, families[0], {16});
  EXPECT_GT(largest(predicted.bias2), 1e-3);
  EXPECT_GE(predicted.error2_of_many(1e12).sum().item<double>(),
            predicted.bias2.sum().item<double>());
}

TEST(MeasuredError, IsThatOfAConvertedLayer) {
  const Sequence sequence(kShape, 0.5);
  for (const AttentionKind kind : {AttentionKind::kPerformer, AttentionKind::kImportance,
                                   AttentionKind::kSderf, AttentionKind::kAderf}) {
    for (const std::int64_t window : {0, 4}) {
      AttentionSpec spec = spec_of(kind, true);
      spec.features = 12;
      spec.window = window;
      spec.gate = window > 0;
      spec.sinks = window > 0 ? 2 : 0;
      const auto mixer = make_mixer(kShape, spec, 9, 3);
      const Tensor white = mixer->named_buffers()["draws"].clone();
      fit_mixer(*mixer, kShape, spec, sequence.moments, FactorStart::kIdentity, 0.1);
      const auto families = fitted_families(spec, kShape, sequence.moments, 2, {.clip = 0.1});
      const Tensor tried =
          mix_by_features(sequence.call(), kShape, {&families, white, spec.window, spec.sinks});
      EXPECT_LT(largest(tried - mixer->forward(sequence.q, sequence.k, sequence.v)), 2e-4)
          << attention_kind_name(kind) << ", window " << window;
    }
  }
}

TEST(MeasuredError, ConstantAttentionIsTheMeanOfThePast) {
  const Sequence sequence;
  const Tensor mean = constant_attention(sequence.call());
  EXPECT_LT(largest(mean[0][3][11] - sequence.v[0][1].slice(0, 0, 12).mean(0)), 1e-5);
  const Tensor distance = squared_distance(mean, sequence.out);
  EXPECT_NEAR(distance[2].item<double>(), (mean - sequence.out)[0][2].square().sum().item<double>(),
              1e-3);
}

}  // namespace
}  // namespace darkformer::predicted_error_test
