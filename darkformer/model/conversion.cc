// Centres, starts of M, proposals.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/conversion.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/model/decoder.h"
#include "darkformer/model/feature_mixer.h"
#include "darkformer/model/matrix_tensors.h"

namespace darkformer {
namespace {

using at::Tensor;

constexpr std::array<const char*, 6> kStarts = {"identity",       "leading",     "whiten",
                                                "whiten-quarter", "whiten-half", "whiten-match"};
constexpr double kRidge = 1e-3;  // of the mean eigenvalue: directions below it are noise

Tensor* find(Mixer& mixer, const std::string& name, Tensor& found) {
  for (const auto& entry : mixer.named_parameters()) {
    if (entry.key() == name) {
      found = entry.value();
      return &found;
    }
  }
  for (const auto& entry : mixer.named_buffers()) {
    if (entry.key() == name) {
      found = entry.value();
      return &found;
    }
  }
  return nullptr;
}

double stretch(FactorStart start, double trace, std::int64_t rank, std::int64_t D) {
  switch (start) {
    case FactorStart::kWhitenQuarter:
      return std::pow(static_cast<double>(D), -0.25);
    case FactorStart::kWhitenHalf:
      return std::pow(static_cast<double>(D), -0.5);
    case FactorStart::kWhitenMatch:
      return std::sqrt(trace * (1.0 + kRidge) / static_cast<double>(rank));
    default:
      return 1.0;
  }
}

void copy_to(const Tensor& to, std::span<const double> values) {
  to.copy_(tensor_of(values, to.sizes()));
}

// M from the covariance of one group (D,D): its R leading directions, or c (Lambda + ridge)^-1/2 on
// them -> (R,D)
estimators::Matrix starting_map(const Tensor& covariance, std::int64_t rank, FactorStart start) {
  if (start == FactorStart::kLeading && rank == covariance.size(0)) {
    return estimators::Matrix::identity(static_cast<std::size_t>(rank));
  }
  const auto spectrum = estimators::symmetric_spectrum(matrix_of(covariance));
  if (start == FactorStart::kLeading) {
    return estimators::leading_directions(spectrum, static_cast<std::size_t>(rank));
  }
  const double trace = covariance.trace().item<double>();
  return estimators::whitening(spectrum, static_cast<std::size_t>(rank), kRidge,
                               stretch(start, trace, rank, covariance.size(0)));
}

estimators::EstimatorKind estimator_of(AttentionKind kind) {
  switch (kind) {
    case AttentionKind::kImportance:
      return estimators::EstimatorKind::kImportance;
    case AttentionKind::kOprf:
      return estimators::EstimatorKind::kOprf;
    case AttentionKind::kSderf:
      return estimators::EstimatorKind::kSderf;
    case AttentionKind::kAderf:
      return estimators::EstimatorKind::kAderf;
    case AttentionKind::kDark:
      return estimators::EstimatorKind::kDark;
    default:
      return estimators::EstimatorKind::kPerformer;
  }
}

// (Cov q + Cov k) / 2 of the kernel inputs: (groups,D,D)
Tensor input_covariance(const LayerMoments& moments, const MixerShape& shape, std::int64_t groups) {
  const Tensor covariance =
      0.5 * shape.scale * (moments.query_covariance(groups) + moments.key_covariance(groups));
  require(covariance.isfinite().all().item<bool>(), "layer ", shape.layer,
          ": the covariance of its queries and keys is not finite");
  return covariance;
}

void check_tokens(const LayerMoments& moments, const MixerShape& shape) {
  require(moments.tokens() > shape.head_dim, "layer ", shape.layer, ": has ",
          count_text(moments.tokens(), "token"), ", too few for the covariance of heads of size ",
          shape.head_dim);
}

// draws <- their proposal, with its weights; aderf's maps.
void set_proposal(Mixer& mixer, const std::vector<estimators::FeatureFamily>& families) {
  Tensor draws, weights, factor, key_factor;
  find(mixer, "draws", draws);
  find(mixer, "log_weights", weights);
  const bool maps =
      find(mixer, "factor", factor) != nullptr && find(mixer, "key_factor", key_factor) != nullptr;
  for (std::int64_t n = 0; n < draws.size(0); ++n) {
    const estimators::FeatureFamily& family = families[static_cast<std::size_t>(n)];
    const auto fitted = estimators::propose(family, matrix_of(draws[n]));
    copy_to(draws[n], fitted.omega.values());
    copy_to(weights[n], fitted.log_weights);
    if (maps) {
      copy_to(factor[n], family.query_map.values());
      copy_to(key_factor[n], family.key_map.values());
    }
  }
}

}  // namespace

std::vector<std::string> factor_start_names() {
  return {kStarts.begin(), kStarts.end()};
}

FactorStart factor_start(const std::string& name) {
  for (std::size_t i = 0; i < kStarts.size(); ++i) {
    if (name == kStarts[i]) {
      return static_cast<FactorStart>(i);
    }
  }
  fail("'", name,
       "' is no start of the factor; wanted identity, leading, whiten, whiten-quarter, whiten-half "
       "or whiten-match");
}

std::int64_t rank_holding(double share,
                          const LayerMoments& moments,
                          const MixerShape& shape,
                          const AttentionSpec& spec) {
  check_tokens(moments, shape);
  const Tensor covariance = input_covariance(moments, shape, parameter_groups(spec, shape));
  std::size_t rank = 1;
  for (std::int64_t n = 0; n < covariance.size(0); ++n) {
    const auto spectrum = estimators::symmetric_spectrum(matrix_of(covariance[n]));
    rank = std::max(rank, estimators::leading_count(spectrum, share));
  }
  return static_cast<std::int64_t>(rank);
}

estimators::InputMoments input_moments(const LayerMoments& moments,
                                       double scale,
                                       std::int64_t groups,
                                       std::int64_t n) {
  const double root = std::sqrt(scale);
  return {vector_of(root * moments.query_mean(groups)[n]),
          vector_of(root * moments.key_mean(groups)[n]),
          matrix_of(scale * moments.query_covariance(groups)[n]),
          matrix_of(scale * moments.key_covariance(groups)[n])};
}

std::vector<estimators::FeatureFamily> fitted_families(const AttentionSpec& spec,
                                                       const MixerShape& shape,
                                                       const LayerMoments& moments,
                                                       std::int64_t groups,
                                                       const FitStart& fit) {
  check_tokens(moments, shape);
  const bool mapped = spec.kind == AttentionKind::kDark && fit.factor != FactorStart::kIdentity;
  const Tensor covariance = mapped ? input_covariance(moments, shape, groups) : Tensor();
  std::vector<estimators::FeatureFamily> families;
  for (std::int64_t n = 0; n < groups; ++n) {
    estimators::FitOptions options;
    options.centre = spec.centre;
    options.orthogonal = spec.orthogonal;
    options.clip = fit.clip;
    if (mapped) {
      options.factor = starting_map(covariance[n], spec.rank, fit.factor);
    }
    try {
      families.push_back(estimators::fit_family(
          estimator_of(spec.kind), input_moments(moments, shape.scale, groups, n), options));
    } catch (const Error& error) {
      fail("layer ", shape.layer, ": ", error.what());
    }
  }
  return families;
}

void fit_mixer(Mixer& mixer,
               const MixerShape& shape,
               const AttentionSpec& spec,
               const LayerMoments& moments,
               FactorStart start,
               const std::optional<double>& clip) {
  const at::NoGradGuard no_gradients;
  Tensor query_center, key_center, factor;
  if (find(mixer, "query_center", query_center) != nullptr) {
    require(moments.tokens() > 0, "layer ", shape.layer, ": no token to take the centres from");
    query_center.copy_(moments.query_mean(query_center.size(0)));
    find(mixer, "key_center", key_center);
    key_center.copy_(moments.key_mean(shape.kv_heads));
  }
  if (has_log_weights(spec.kind)) {
    Tensor draws;
    find(mixer, "draws", draws);
    set_proposal(mixer, fitted_families(spec, shape, moments, draws.size(0), {start, clip}));
    return;
  }
  if (start == FactorStart::kIdentity || find(mixer, "factor", factor) == nullptr) {
    return;
  }
  check_tokens(moments, shape);
  const Tensor covariance = input_covariance(moments, shape, factor.size(0));
  for (std::int64_t n = 0; n < factor.size(0); ++n) {
    copy_to(factor[n], starting_map(covariance[n], spec.rank, start).values());
  }
  if (Tensor key_factor; find(mixer, "key_factor", key_factor) != nullptr) {
    key_factor.copy_(factor);
  }
}

void convert_layer(Decoder& model,
                   std::int64_t layer,
                   const AttentionSpec& spec,
                   const LayerMoments* moments,
                   const FitStart& fit) {
  AttentionSpec wanted = spec;
  wanted.folded = model.config().attention.at(static_cast<std::size_t>(layer)).folded;
  require(!wanted.folded || has_features(spec.kind), "layer ", layer,
          ": a factor is folded into its projections, so that attention ",
          attention_kind_name(spec.kind), " cannot come back; convert the original folder");
  model.set_attention(layer, wanted);
  if (moments != nullptr) {
    fit_mixer(*model.block(layer)->attention()->mixer(), mixer_shape(model.config(), layer), wanted,
              *moments, fit.factor, fit.clip);
  }
}

void fold_factor(Decoder& model, std::int64_t layer) {
  const at::NoGradGuard no_gradients;
  const ModelConfig& config = model.config();
  AttentionSpec spec = config.attention.at(static_cast<std::size_t>(layer));
  require(spec.kind == AttentionKind::kDark, "layer ", layer, ": attention ",
          attention_kind_name(spec.kind), " has no learned factor to fold");
  require(spec.rope == RopeOrder::kBefore, "layer ", layer,
          ": its factor acts after the rotation, which stands between it and the projections: only "
          "one that acts before (--rope before) can be folded");
  require(!config.parts().qk_norm, "layer ", layer,
          ": queries and keys are normed between their projections and the factor; it cannot be "
          "folded");
  const std::shared_ptr<Mixer> before = model.block(layer)->attention()->mixer();
  Tensor factor;
  find(*before, "factor", factor);  // (G,D,D) or (1,D,D)
  const auto for_heads = [&](std::int64_t heads) {
    return factor.detach().repeat_interleave(heads / factor.size(0), 0);
  };
  model.block(layer)->attention()->fold_maps(for_heads(config.heads),
                                             for_heads(config.kv_heads_of(layer)));
  spec.kind = AttentionKind::kPerformer;
  spec.rope = RopeOrder::kAfter;
  spec.folded = true;
  model.set_attention(layer, spec);
  Mixer& after = *model.block(layer)->attention()->mixer();
  for (const char* name :
       {"draws", "query_center", "key_center", "gate_scale", "gate_bias", "gate_weight"}) {
    Tensor from, to;
    if (find(*before, name, from) != nullptr && find(after, name, to) != nullptr) {
      to.copy_(from);
    }
  }
}

}  // namespace darkformer
