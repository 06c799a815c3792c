// Fitting a converted layer to data: centres, where M starts, and the fitted kinds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "darkformer/estimators/fit_family.h"
#include "darkformer/model/attention_spec.h"
#include "darkformer/model/mixer.h"
#include "darkformer/model/moments.h"

namespace darkformer {

class Decoder;

// Where M starts, for R < D in R directions. Whitening is M = c (scale Lambda)^-1/2 with
// Lambda = (Cov q + Cov k) / 2 of the group; it and `leading` take Lambda's R leading directions:
//   identity         the identity, or random orthonormal rows
//   leading          the identity, or orthonormal rows: what varies most is seen as it is
//   whiten           c = 1: the kernel inputs become isotropic with variance 1
//   whiten-quarter   c = D^-1/4
//   whiten-half      c = D^-1/2
//   whiten-match     c = sqrt(trace(scale Lambda) / R): the inputs keep their mean squared size
enum class FactorStart : std::uint8_t {
  kIdentity,
  kLeading,
  kWhiten,
  kWhitenQuarter,
  kWhitenHalf,
  kWhitenMatch
};

std::vector<std::string> factor_start_names();
FactorStart factor_start(const std::string& name);  // Error: none of the names

// What fitting depends on besides the moments.
struct FitStart {
  FactorStart factor = FactorStart::kIdentity;  // dark
  std::optional<double> clip = {};              // importance
};

// The least rank whose leading directions hold `share` (0 to 1) of the variance of the kernel
// inputs of each group of the layer. Error, naming the layer: too few tokens for a covariance, or
// one that is not finite.
std::int64_t rank_holding(double share,
                          const LayerMoments& moments,
                          const MixerShape& shape,
                          const AttentionSpec& spec);

// Moments of the kernel inputs of group n of `groups`: queries and keys times sqrt(scale).
estimators::InputMoments input_moments(const LayerMoments& moments,
                                       double scale,
                                       std::int64_t groups,
                                       std::int64_t n);

// The estimators that a layer with this attention starts as, one for each group, in kernel inputs:
// those of the fitted kinds, performer's for lfk and for dark from the identity (full rank), its
// starting map for dark otherwise. Errors as fit_mixer.
std::vector<estimators::FeatureFamily> fitted_families(const AttentionSpec& spec,
                                                       const MixerShape& shape,
                                                       const LayerMoments& moments,
                                                       std::int64_t groups,
                                                       const FitStart& fit = {});

// Sets what the mixer has of centres, factor, key_factor, log_weights and draws from the moments of
// its inputs; `mixer` is as make_mixer gave it, its draws still those of N(0, I). The fitted kinds
// (importance, oprf, sderf, aderf) by estimators/fit_family.h, from second moments about the
// centres where it has them; `clip` is theirs (importance), `start` is dark's.
// Error, naming the layer: too few tokens for a covariance, moments that are not finite, inputs too
// large for the optimal proposal of importance.
void fit_mixer(Mixer& mixer,
               const MixerShape& shape,
               const AttentionSpec& spec,
               const LayerMoments& moments,
               FactorStart start,
               const std::optional<double>& clip = {});

// Gives a layer of a model another attention, its draws from the config's seed, fitted to `moments`
// where they are given. A layer whose projections hold a folded factor stays marked so. Errors as
// fit_mixer; a folded layer that would become exact, constant or random.
void convert_layer(Decoder& model,
                   std::int64_t layer,
                   const AttentionSpec& spec,
                   const LayerMoments* moments = nullptr,
                   const FitStart& fit = {});

// Multiplies the factor of a dark layer into its projections, which become float32, and leaves
// performer with the same draws, centres and gate: the same outputs up to rounding, with less work.
// It cannot be undone. Error, naming the layer: it is not dark, its factor acts after the
// rotation, or there are norms of queries and keys (Gemma 3).
void fold_factor(Decoder& model, std::int64_t layer);

}  // namespace darkformer
