// Centres, whitening, proposals.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/conversion.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "darkformer/base/error.h"
#include "darkformer/estimators/fit_family.h"

namespace darkformer {
namespace {

using at::Tensor;

constexpr std::array<const char*, 5> kStarts = {"identity", "whiten", "whiten-quarter",
                                                "whiten-half", "whiten-match"};
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

estimators::Matrix matrix_of(const Tensor& x) {
  const Tensor values = x.detach().to(at::kDouble).contiguous();
  estimators::Matrix a(static_cast<std::size_t>(x.size(0)), static_cast<std::size_t>(x.size(1)));
  std::copy_n(values.data_ptr<double>(), values.numel(), a.values().begin());
  return a;
}

estimators::Vector vector_of(const Tensor& x) {
  const estimators::Matrix row = matrix_of(x.unsqueeze(0));
  return {row.values().begin(), row.values().end()};
}

void copy_to(const Tensor& to, std::span<const double> values) {
  to.copy_(at::from_blob(const_cast<double*>(values.data()), to.sizes(), at::kDouble));
}

// c (Lambda + ridge)^-1/2 on the R leading directions (R,D), for one group.
estimators::Matrix whitening(const Tensor& covariance, std::int64_t rank, FactorStart start) {
  const auto spectrum = estimators::symmetric_spectrum(matrix_of(covariance));
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
    default:
      return estimators::EstimatorKind::kAderf;
  }
}

// Moments of the kernel inputs of group n: queries and keys times sqrt(scale).
estimators::InputMoments inputs_of(const LayerMoments& moments,
                                   double scale,
                                   std::int64_t groups,
                                   std::int64_t n) {
  const double root = std::sqrt(scale);
  return {vector_of(root * moments.query_mean(groups)[n]),
          vector_of(root * moments.key_mean(groups)[n]),
          matrix_of(scale * moments.query_covariance(groups)[n]),
          matrix_of(scale * moments.key_covariance(groups)[n])};
}

// draws <- their proposal, with its weights; aderf's maps.
void fit_proposal(Mixer& mixer,
                  const MixerShape& shape,
                  const AttentionSpec& spec,
                  const LayerMoments& moments,
                  const std::optional<double>& clip) {
  Tensor draws, weights, factor, key_factor;
  find(mixer, "draws", draws);
  find(mixer, "log_weights", weights);
  const bool maps =
      find(mixer, "factor", factor) != nullptr && find(mixer, "key_factor", key_factor) != nullptr;
  for (std::int64_t n = 0; n < draws.size(0); ++n) {
    const auto family = estimators::fit_family(estimator_of(spec.kind),
                                               inputs_of(moments, shape.scale, draws.size(0), n),
                                               {.centre = spec.centre, .clip = clip});
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
       "' is no start of the factor; wanted identity, whiten, whiten-quarter, whiten-half or "
       "whiten-match");
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
  const bool fitted = has_log_weights(spec.kind);
  if (!fitted && (start == FactorStart::kIdentity || find(mixer, "factor", factor) == nullptr)) {
    return;
  }
  require(moments.tokens() > shape.head_dim, "layer ", shape.layer, ": ", moments.tokens(),
          " tokens are too few for the covariance of heads of size ", shape.head_dim);
  if (fitted) {
    try {
      fit_proposal(mixer, shape, spec, moments, clip);
    } catch (const Error& error) {
      fail("layer ", shape.layer, ": ", error.what());
    }
    return;
  }
  const std::int64_t groups = factor.size(0);
  const Tensor covariance =
      0.5 * shape.scale * (moments.query_covariance(groups) + moments.key_covariance(groups));
  require(covariance.isfinite().all().item<bool>(), "layer ", shape.layer,
          ": the covariance of its queries and keys is not finite");
  for (std::int64_t n = 0; n < groups; ++n) {
    copy_to(factor[n], whitening(covariance[n], spec.rank, start).values());
  }
}

}  // namespace darkformer
