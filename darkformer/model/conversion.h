// Fitting a converted layer to data: centres and a whitening start of M.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "darkformer/model/mixer.h"
#include "darkformer/model/moments.h"

namespace darkformer {

// Where M starts. Whitening is M = c (scale Lambda)^-1/2 with Lambda = (Cov q + Cov k) / 2 of the
// group, its R leading directions where R < D:
//   identity         the identity, or orthonormal rows
//   whiten           c = 1: the kernel inputs become isotropic with variance 1
//   whiten-quarter   c = D^-1/4
//   whiten-half      c = D^-1/2
//   whiten-match     c = sqrt(trace(scale Lambda) / R): the inputs keep their mean squared size
enum class FactorStart : std::uint8_t {
  kIdentity,
  kWhiten,
  kWhitenQuarter,
  kWhitenHalf,
  kWhitenMatch
};

std::vector<std::string> factor_start_names();
FactorStart factor_start(const std::string& name);  // Error: none of the names

// Sets the mixer's centres (where it has them) and its factor from the moments of its inputs.
// Error: too few tokens for a covariance, moments that are not finite.
void fit_mixer(Mixer& mixer,
               const MixerShape& shape,
               const AttentionSpec& spec,
               const LayerMoments& moments,
               FactorStart start);

}  // namespace darkformer
