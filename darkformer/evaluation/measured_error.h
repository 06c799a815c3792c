// The error that attention with drawn features has on given tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "darkformer/estimators/feature_family.h"
#include "darkformer/model/observed_mixer.h"

namespace darkformer {

// An attention to be tried in a layer.
struct FeatureTrial {
  const std::vector<estimators::FeatureFamily>* families;  // one for each kv head
  at::Tensor white;         // (G,F,R): draws of N(0, I), shared by the trials of one F
  std::int64_t window = 0;  // exact keys next to the query, joined by the gate as it starts
  std::int64_t sinks = 0;   // exact keys at the start
};

// Mixes the queries, keys and values of the call as the trial says -> (1,H,T,D).
at::Tensor mix_by_features(const MixerCall& call,
                           const MixerShape& shape,
                           const FeatureTrial& trial);

// sum over batch, time and size of (a - b)^2, for each head: (H) double
at::Tensor squared_distance(const at::Tensor& a, const at::Tensor& b);

// The mean of the values seen so far, (1,H,T,D): attention that knows nothing.
at::Tensor constant_attention(const MixerCall& call);

}  // namespace darkformer
