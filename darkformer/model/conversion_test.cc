// Moments and what conversion makes of them: means, covariances, whitening.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/conversion.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "darkformer/base/error.h"
#include "darkformer/model/small_decoder.h"

namespace darkformer::conversion_test {
namespace {

using at::Tensor;

const MixerShape kShape = {0, 4, 2, 6, 0.25, 0.0, 0};

// Anisotropic queries and keys with means: (2,H,T,D).
struct Data {
  Data() {
    at::manual_seed(3);
    const Tensor map = at::randn({6, 6}) + 2.0 * at::eye(6);
    q = at::matmul(at::randn({2, 4, 500, 6}), map) + at::randn({4, 1, 6});
    k = at::matmul(at::randn({2, 2, 500, 6}), map.t()) + at::randn({2, 1, 6});
  }
  Tensor q, k;
};

LayerMoments moments_of(const Data& data) {
  LayerMoments moments(4, 2, 6);
  // In two parts: the sums must not care.
  moments.add(data.q.slice(2, 0, 123), data.k.slice(2, 0, 123));
  moments.add(data.q.slice(2, 123), data.k.slice(2, 123));
  return moments;
}

// The moments of rows (N,D) by their definition.
Tensor covariance_of(const Tensor& rows) {
  const Tensor centred = (rows - rows.mean(0)).to(at::kDouble);
  return at::matmul(centred.t(), centred) / rows.size(0);
}

double largest(const Tensor& x) {
  return x.abs().max().item<double>();
}

TEST(LayerMoments, EqualTheirDefinition) {
  const Data data;
  const LayerMoments moments = moments_of(data);
  EXPECT_EQ(moments.tokens(), 1000);
  for (std::int64_t g = 0; g < 2; ++g) {
    // Query heads 2g and 2g+1 share kv head g.
    const Tensor queries = data.q.slice(1, 2 * g, 2 * g + 2).reshape({-1, 6}).to(at::kDouble);
    EXPECT_LT(largest(moments.query_mean(2)[g] - queries.mean(0)), 1e-5);
    EXPECT_LT(largest(moments.query_covariance(2)[g] - covariance_of(queries)), 1e-3);
    const Tensor keys = data.k.select(1, g).reshape({-1, 6}).to(at::kDouble);
    EXPECT_LT(largest(moments.key_covariance(2)[g] - covariance_of(keys)), 1e-3);
    EXPECT_LT(largest(moments.key_mean(4)[2 * g + 1] - keys.mean(0)), 1e-5);
  }
  const Tensor all = data.q.transpose(0, 1).reshape({-1, 6}).to(at::kDouble);
  EXPECT_LT(largest(moments.query_covariance(1)[0] - covariance_of(all)), 1e-3);
}

AttentionSpec dark_spec(std::int64_t rank) {
  AttentionSpec spec;
  spec.kind = AttentionKind::kDark;
  spec.features = 8;
  spec.rank = rank;
  spec.centre = true;
  return spec;
}

Tensor parameter(Mixer& mixer, const std::string& name) {
  return mixer.named_parameters().contains(name) ? mixer.named_parameters()[name]
                                                 : mixer.named_buffers()[name];
}

TEST(Conversion, SetsCentresAndWhitens) {
  const Data data;
  const LayerMoments moments = moments_of(data);
  for (const std::int64_t rank : {6, 4}) {
    const auto mixer = make_mixer(kShape, dark_spec(rank), 1, 0);
    fit_mixer(*mixer, kShape, dark_spec(rank), moments, FactorStart::kWhiten);
    EXPECT_LT(largest(parameter(*mixer, "query_center") - moments.query_mean(2)), 1e-5);
    EXPECT_LT(largest(parameter(*mixer, "key_center") - moments.key_mean(2)), 1e-5);
    const Tensor factor = parameter(*mixer, "factor").to(at::kDouble);  // (G,R,D)
    const Tensor lambda = 0.5 * 0.25 * (moments.query_covariance(2) + moments.key_covariance(2));
    const Tensor white = at::matmul(at::matmul(factor, lambda), factor.transpose(-1, -2));
    EXPECT_LT(largest(white - at::eye(rank, at::kDouble)), 0.05)
        << rank;  // the ridge takes a little
    AttentionSpec own_keys = dark_spec(rank);
    own_keys.own_key_factor = true;
    const auto other = make_mixer(kShape, own_keys, 1, 0);
    fit_mixer(*other, kShape, own_keys, moments, FactorStart::kWhiten);
    EXPECT_TRUE(at::equal(parameter(*other, "factor"), parameter(*mixer, "factor")));
    EXPECT_TRUE(at::equal(parameter(*other, "key_factor"), parameter(*mixer, "factor")));
  }
}

TEST(Conversion, StartsDifferByTheirScale) {
  const LayerMoments moments = moments_of(Data());
  const auto start = [&](FactorStart which) {
    const auto mixer = make_mixer(kShape, dark_spec(6), 1, 0);
    fit_mixer(*mixer, kShape, dark_spec(6), moments, which);
    return parameter(*mixer, "factor").detach().clone();
  };
  const Tensor whiten = start(FactorStart::kWhiten);
  EXPECT_LT(largest(start(FactorStart::kWhitenQuarter) - std::pow(6.0, -0.25) * whiten), 1e-5);
  EXPECT_LT(largest(start(FactorStart::kWhitenHalf) - std::pow(6.0, -0.5) * whiten), 1e-5);
  EXPECT_LT(largest(start(FactorStart::kIdentity) - at::eye(6)), 1e-6);
  // match: the trace of M Lambda M^T is that of Lambda.
  const Tensor lambda = 0.5 * 0.25 * (moments.query_covariance(2) + moments.key_covariance(2));
  const Tensor match = start(FactorStart::kWhitenMatch).to(at::kDouble);
  const Tensor mapped = at::matmul(at::matmul(match, lambda), match.transpose(-1, -2));
  for (std::int64_t g = 0; g < 2; ++g) {
    const double before = lambda[g].trace().item<double>();
    EXPECT_NEAR(mapped[g].trace().item<double>(), before, 0.01 * before);
  }
}

TEST(Conversion, LeadingRowsAreOrthonormalAndKeepTheLargestVariances) {
  const LayerMoments moments = moments_of(Data());
  const Tensor lambda = 0.5 * 0.25 * (moments.query_covariance(2) + moments.key_covariance(2));
  const Tensor variances = std::get<0>(at::linalg_eigh(lambda.to(at::kDouble)));  // (G,D), rising
  for (const std::int64_t rank : {6, 4, 1}) {
    const auto mixer = make_mixer(kShape, dark_spec(rank), 1, 0);
    fit_mixer(*mixer, kShape, dark_spec(rank), moments, FactorStart::kLeading);
    const Tensor factor = parameter(*mixer, "factor").to(at::kDouble);  // (G,R,D)
    const Tensor product = at::matmul(factor, factor.transpose(-1, -2));
    EXPECT_LT(largest(product - at::eye(rank, at::kDouble)), 1e-6) << rank;
    const Tensor mapped = at::matmul(at::matmul(factor, lambda), factor.transpose(-1, -2));
    const Tensor kept = mapped.diagonal(0, -2, -1).sum(-1);
    const Tensor most = variances.slice(-1, 6 - rank).sum(-1);
    EXPECT_LT(largest(kept / most - 1.0), 1e-5) << rank;
    if (rank == 6) {
      EXPECT_EQ(largest(factor - at::eye(6)), 0.0);
    }
  }
}

TEST(Conversion, RanksHoldTheirShareOfTheVariance) {
  const LayerMoments moments = moments_of(Data());
  const Tensor lambda = 0.5 * 0.25 * (moments.query_covariance(2) + moments.key_covariance(2));
  const Tensor variances = std::get<0>(at::linalg_eigh(lambda.to(at::kDouble))).flip(-1);  // (G,D)
  const Tensor held = (variances / variances.sum(-1, true)).cumsum(-1);
  for (const double share : {0.01, 0.5, 0.8, 0.95, 1.0}) {
    const std::int64_t rank = rank_holding(share, moments, kShape, dark_spec(6));
    EXPECT_GE(held.select(-1, rank - 1).min().item<double>(), share - 1e-9) << share;
    EXPECT_TRUE(rank == 1 || held.select(-1, rank - 2).min().item<double>() < share) << share;
  }
}

AttentionSpec fitted_spec(AttentionKind kind, std::int64_t features, bool centre) {
  AttentionSpec spec;
  spec.kind = kind;
  spec.features = features;
  spec.rank = 6;
  spec.centre = centre;
  return spec;
}

// Inputs small enough for the optimal proposal: about 1/4 of Data's.
struct SmallData : Data {
  SmallData() { q = 0.25 * q, k = 0.25 * k; }
};

constexpr AttentionKind kFitted[] = {AttentionKind::kImportance, AttentionKind::kOprf,
                                     AttentionKind::kSderf, AttentionKind::kAderf};

TEST(Conversion, FittedKindsEstimateSoftmaxAttention) {
  const SmallData data;
  const LayerMoments moments = moments_of(data);
  const at::NoGradGuard no_gradients;
  const Tensor q = data.q.slice(2, 0, 20), k = data.k.slice(2, 0, 20);
  const Tensor v = at::randn({2, 2, 20, 6});
  const Tensor exact = make_mixer(kShape, {}, 1, 0)->forward(q, k, v);
  for (const AttentionKind kind : kFitted) {
    for (const bool centre : {false, true}) {
      const AttentionSpec spec = fitted_spec(kind, 16384, centre);
      const auto mixer = make_mixer(kShape, spec, 1, 0);
      fit_mixer(*mixer, kShape, spec, moments, FactorStart::kIdentity);
      EXPECT_LT(largest(mixer->forward(q, k, v) - exact), 0.1) << attention_kind_name(kind);
      // Without its weights the estimate is that of another kernel.
      parameter(*mixer, "log_weights").zero_();
      EXPECT_GT(largest(mixer->forward(q, k, v) - exact), 0.1) << attention_kind_name(kind);
    }
  }
}

TEST(Conversion, FittedDrawsCarryTheirWeights) {
  const LayerMoments moments = moments_of(SmallData());
  const AttentionSpec spec = fitted_spec(AttentionKind::kSderf, 12, true);
  const auto white = make_mixer(kShape, spec, 1, 0), mixer = make_mixer(kShape, spec, 1, 0);
  fit_mixer(*mixer, kShape, spec, moments, FactorStart::kIdentity);
  const Tensor w = parameter(*white, "draws").to(at::kDouble);
  const Tensor omega = parameter(*mixer, "draws").to(at::kDouble);
  for (std::int64_t g = 0; g < 2; ++g) {
    // omega = w P^1/2: P^1/2 by least squares, and the weights from their definition.
    const Tensor root =
        at::linalg_solve(at::matmul(w[g].t(), w[g]), at::matmul(w[g].t(), omega[g]));
    const Tensor want =
        at::logdet(root) + 0.5 * w[g].square().sum(-1) - 0.5 * omega[g].square().sum(-1);
    EXPECT_LT(largest(parameter(*mixer, "log_weights")[g] - want), 1e-3);
  }
}

TEST(Conversion, ImportanceRefusesLargeInputsUnlessClipped) {
  const LayerMoments moments = moments_of(Data());
  const AttentionSpec spec = fitted_spec(AttentionKind::kImportance, 8, true);
  const auto mixer = make_mixer(kShape, spec, 1, 0);
  try {
    fit_mixer(*mixer, kShape, spec, moments, FactorStart::kIdentity);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("layer 0: importance: "), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("eigenvalue -0."), std::string::npos) << error.what();
  }
  fit_mixer(*mixer, kShape, spec, moments, FactorStart::kIdentity, 0.1);
  EXPECT_TRUE(parameter(*mixer, "log_weights").isfinite().all().item<bool>());
}

TEST(Conversion, RefusesTooFewTokens) {
  LayerMoments few(4, 2, 6);
  few.add(at::randn({1, 4, 3, 6}), at::randn({1, 2, 3, 6}));
  const auto mixer = make_mixer(kShape, dark_spec(6), 1, 0);
  EXPECT_THROW(fit_mixer(*mixer, kShape, dark_spec(6), few, FactorStart::kWhiten), Error);
  const AttentionSpec spec = fitted_spec(AttentionKind::kSderf, 8, false);
  EXPECT_THROW(
      fit_mixer(*make_mixer(kShape, spec, 1, 0), kShape, spec, few, FactorStart::kIdentity), Error);
  LayerMoments broken(4, 2, 6);
  broken.add(at::full({1, 4, 30, 6}, std::nan("")), at::zeros({1, 2, 30, 6}));
  EXPECT_THROW(
      fit_mixer(*make_mixer(kShape, spec, 1, 0), kShape, spec, broken, FactorStart::kIdentity),
      Error);
  EXPECT_THROW(factor_start("whitish"), Error);
}

// A model with a whitening factor before the rotation in layer 1.
std::shared_ptr<Decoder> unfolded(Family family, Placement placement) {
  const auto model = small_decoder(small_config(family));
  AttentionSpec spec;
  spec.kind = AttentionKind::kDark;
  spec.features = spec.rank = 8;
  spec.placement = placement;
  spec.rope = RopeOrder::kBefore;
  spec.centre = true;
  spec.window = 3;
  spec.gate = true;
  LayerMoments moments(4, 2, 8);
  at::manual_seed(2);
  moments.add(at::randn({1, 4, 50, 8}) + 0.3, at::randn({1, 2, 50, 8}) - 0.2);
  convert_layer(*model, 1, spec, &moments, {.factor = FactorStart::kWhitenMatch});
  return model;
}

TEST(Fold, GivesTheSameOutputsWithoutAFactor) {
  const at::NoGradGuard no_gradients;
  const Tensor ids = at::arange(3, 33, at::kLong).reshape({1, 30});
  for (const Family family : {Family::kGemma1, Family::kGemma2}) {
    for (const Placement placement : {Placement::kKvHead, Placement::kLayer}) {
      const auto model = unfolded(family, placement);
      const Tensor before = model->logits(model->forward(ids));
      fold_factor(*model, 1);
      EXPECT_LT(largest(model->logits(model->forward(ids)) - before), 1e-3);
      const AttentionSpec& spec = model->config().attention[1];
      EXPECT_EQ(spec.kind, AttentionKind::kPerformer);
      EXPECT_TRUE(spec.folded);
      // The original's projections are gone: exact attention would be another model's.
      EXPECT_THROW(convert_layer(*model, 1, {}), Error);
      AttentionSpec again = spec;
      again.folded = false;
      convert_layer(*model, 1, again);
      EXPECT_TRUE(model->config().attention[1].folded);
      again.near = NearKernel::kModel;  // the model's own kernel is gone too
      EXPECT_THROW(convert_layer(*model, 1, again), Error);
    }
  }
}

TEST(Fold, IsRefusedWhereSomethingStandsBetween) {
  EXPECT_THROW(fold_factor(*unfolded(Family::kGemma3, Placement::kKvHead), 1), Error);
  const auto model = small_decoder(small_config(Family::kGemma1));
  EXPECT_THROW(fold_factor(*model, 1), Error);  // exact
  model->set_attention(1, small_dark_spec());
  EXPECT_THROW(fold_factor(*model, 1), Error);  // after the rotation
}

}  // namespace
}  // namespace darkformer::conversion_test
