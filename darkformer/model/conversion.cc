// Centres and whitening.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/conversion.h"

#include <ATen/ATen.h>

#include <array>
#include <cmath>

#include "darkformer/base/error.h"

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

double stretch(FactorStart start, const Tensor& eigenvalues, std::int64_t rank, std::int64_t D) {
  switch (start) {
    case FactorStart::kWhitenQuarter:
      return std::pow(static_cast<double>(D), -0.25);
    case FactorStart::kWhitenHalf:
      return std::pow(static_cast<double>(D), -0.5);
    case FactorStart::kWhitenMatch:
      return std::sqrt(eigenvalues.sum().item<double>() / static_cast<double>(rank));
    default:
      return 1.0;
  }
}

// c (Lambda + ridge)^-1/2 on the R leading directions (R,D), for one group.
Tensor whitening(const Tensor& covariance, std::int64_t rank, FactorStart start) {
  const auto [values, vectors] = at::linalg_eigh(covariance);  // ascending
  const std::int64_t D = covariance.size(0);
  const Tensor ridged = values.clamp_min(0.0) + kRidge * values.clamp_min(0.0).mean();
  const Tensor leading = ridged.slice(0, D - rank), rows = vectors.slice(1, D - rank).t();
  const double c = stretch(start, ridged, rank, D);
  const Tensor scaled = c * rows / leading.sqrt().unsqueeze(1);  // (R,D)
  // At full rank the symmetric root: the whitened space keeps the axes of the old one.
  return rank == D ? at::matmul(rows.t(), scaled) : scaled;
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
               FactorStart start) {
  const at::NoGradGuard no_gradients;
  Tensor query_center, key_center, factor;
  if (find(mixer, "query_center", query_center) != nullptr) {
    require(moments.tokens() > 0, "layer ", shape.layer, ": no token to take the centres from");
    query_center.copy_(moments.query_mean(query_center.size(0)));
    find(mixer, "key_center", key_center);
    key_center.copy_(moments.key_mean(shape.kv_heads));
  }
  if (start == FactorStart::kIdentity || find(mixer, "factor", factor) == nullptr) {
    return;
  }
  require(moments.tokens() > shape.head_dim, "layer ", shape.layer, ": ", moments.tokens(),
          " tokens are too few to whiten heads of size ", shape.head_dim);
  const std::int64_t groups = factor.size(0);
  const Tensor covariance =
      0.5 * shape.scale * (moments.query_covariance(groups) + moments.key_covariance(groups));
  require(covariance.isfinite().all().item<bool>(), "layer ", shape.layer,
          ": the covariance of its queries and keys is not finite");
  for (std::int64_t n = 0; n < groups; ++n) {
    factor[n].copy_(whitening(covariance[n], spec.rank, start));
  }
}

}  // namespace darkformer
