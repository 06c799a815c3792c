// Families as arguments of the op.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/measured_error.h"

#include <ATen/ATen.h>

#include <cmath>

#include "darkformer/model/matrix_tensors.h"
#include "darkformer/model/near_mass.h"
#include "darkformer/ops/dark_attention.h"

namespace darkformer {
namespace {

using at::Tensor;
using estimators::FeatureFamily;

Tensor float_tensor(std::span<const double> values, at::IntArrayRef shape) {
  return tensor_of(values, shape).to(at::kFloat);
}

// What the op takes, one row of each for every family.
struct Arguments {
  void add(const FeatureFamily& family, const Tensor& white, double scale) {
    const auto R = static_cast<std::int64_t>(family.rank()),
               D = static_cast<std::int64_t>(family.dim()), F = white.size(0);
    const estimators::FeatureDraws drawn = estimators::propose(family, matrix_of(white));
    draws.push_back(float_tensor(drawn.omega.values(), {F, R}));
    log_weights.push_back(float_tensor(drawn.log_weights, {F}));
    query_maps.push_back(float_tensor(family.query_map.values(), {R, D}));
    key_maps.push_back(float_tensor(family.key_map.values(), {R, D}));
    // The op's centres are in units of q and k, a family's in kernel inputs.
    query_centers.push_back(float_tensor(family.query_center, {D}) / std::sqrt(scale));
    key_centers.push_back(float_tensor(family.key_center, {D}) / std::sqrt(scale));
  }

  std::vector<Tensor> draws, log_weights, query_maps, key_maps, query_centers, key_centers;
};

}  // namespace

Tensor mix_by_features(const MixerCall& call, const MixerShape& shape, const FeatureTrial& trial) {
  Arguments arguments;
  for (std::int64_t g = 0; g < shape.kv_heads; ++g) {
    arguments.add((*trial.families)[static_cast<std::size_t>(g)], trial.white[g], shape.scale);
  }
  ops::DarkOptions options;
  options.factor = at::stack(arguments.query_maps);
  options.key_factor = at::stack(arguments.key_maps);
  options.log_weights = at::stack(arguments.log_weights);
  options.query_center = at::stack(arguments.query_centers);
  options.key_center = at::stack(arguments.key_centers);
  options.scale = shape.scale;
  options.window = trial.window;
  options.sinks = trial.sinks;
  if (trial.window > 0) {
    const Tensor gate = at::zeros({shape.heads, 2});
    gate.select(1, 0).fill_(kGateScale);  // c where a converted layer starts; its bias is 0
    options.gate = gate;
  }
  return ops::dark_attention(call.q, call.k, call.v, at::stack(arguments.draws), options);
}

Tensor squared_distance(const Tensor& a, const Tensor& b) {
  return (a - b).to(at::kDouble).square().sum(at::IntArrayRef({0, 2, 3}));
}

Tensor constant_attention(const MixerCall& call) {
  const Tensor count = at::arange(1, call.v.size(2) + 1, at::kDouble).unsqueeze(1);
  const Tensor mean = (call.v.to(at::kDouble).cumsum(2) / count).to(at::kFloat);  // (1,G,T,D)
  return mean.repeat_interleave(call.q.size(1) / call.v.size(1), 1);
}

}  // namespace darkformer
