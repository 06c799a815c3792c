// Feature attention as a module.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/feature_mixer.h"

#include <ATen/ATen.h>

#include <cmath>

#include "darkformer/model/attention_spec.h"
#include "darkformer/model/near_mass.h"
#include "darkformer/ops/draw_features.h"
#include "darkformer/ops/linear.h"

namespace darkformer {

using at::Tensor;

namespace {

// Streams of the generator below this are layers; the starting factor has its own.
constexpr std::int64_t kFactorStreams = std::int64_t{1} << 31;

// x (B,heads,T,D) M^T for the M of each head's group.
Tensor map_heads(const Tensor& x, const Tensor& factor) {
  const std::int64_t heads = x.size(1), groups = factor.size(0);
  const Tensor grouped = x.reshape({x.size(0), groups, heads / groups, x.size(2), x.size(3)});
  std::vector<Tensor> mapped;
  for (std::int64_t g = 0; g < groups; ++g) {
    mapped.push_back(ops::linear(grouped.select(1, g), factor[g]));
  }
  return at::stack(mapped, 1).reshape(x.sizes());
}

}  // namespace

Tensor initial_factor(std::int64_t groups,
                      std::int64_t rank,
                      std::int64_t head_dim,
                      std::uint64_t seed,
                      std::int64_t layer) {
  if (rank == head_dim) {
    return at::eye(head_dim, at::kFloat).repeat({groups, 1, 1});
  }
  const Tensor rows = ops::draw_features(groups, rank, head_dim, static_cast<std::int64_t>(seed),
                                         kFactorStreams + layer, 0);
  return rows / rows.norm(2, -1, true);
}

FeatureMixer::FeatureMixer(const MixerShape& shape,
                           const AttentionSpec& spec,
                           std::uint64_t seed,
                           std::int64_t draw_index,
                           const FeatureMixer* owner)
    : shape_(shape), spec_(spec), shares_(owner != nullptr) {
  if (shares_) {
    draws_ = owner->draws_;
    factor_ = owner->factor_;
    key_factor_ = owner->key_factor_;
    log_weights_ = owner->log_weights_;
    query_center_ = owner->query_center_;
    key_center_ = owner->key_center_;
  } else {
    register_features(seed, draw_index);
  }
  register_gate();
}

void FeatureMixer::register_features(std::uint64_t seed, std::int64_t draw_index) {
  if (!has_draws(spec_.kind)) {
    register_learned_maps(seed);
    return;
  }
  const Tensor draws = fresh_draws(seed, draw_index);
  draws_ =
      learns_draws(spec_) ? register_parameter("draws", draws) : register_buffer("draws", draws);
  if (has_factor(spec_.kind)) {
    const Tensor factor = initial_factor(groups(), spec_.rank, shape_.head_dim, seed, shape_.layer);
    // aderf fits its maps; dark learns M.
    factor_ = spec_.kind == AttentionKind::kDark ? register_parameter("factor", factor)
                                                 : register_buffer("factor", factor);
  }
  register_fitted();
}

// W of queries and keys from the same rows, of such a size that phi starts as softmax of the
// kernel's inputs.
void FeatureMixer::register_learned_maps(std::uint64_t seed) {
  const Tensor map = std::sqrt(shape_.scale) * initial_factor(groups(), factor_rows(spec_),
                                                              shape_.head_dim, seed, shape_.layer);
  factor_ = register_parameter("factor", map);
  key_factor_ = register_parameter("key_factor", map.detach().clone());
}

void FeatureMixer::register_fitted() {
  const std::int64_t N = groups(), D = shape_.head_dim;
  if (spec_.own_key_factor) {
    key_factor_ = register_parameter("key_factor", factor_.detach().clone());
  } else if (has_key_factor(spec_)) {
    key_factor_ = register_buffer("key_factor",
                                  at::eye(D, at::kFloat).slice(0, 0, spec_.rank).repeat({N, 1, 1}));
  }
  if (has_log_weights(spec_.kind)) {
    log_weights_ = register_buffer("log_weights", at::zeros({N, spec_.features}));
  }
  if (spec_.centre) {
    query_center_ = register_buffer("query_center", at::zeros({N, D}));
    key_center_ = register_buffer("key_center", at::zeros({shape_.kv_heads, D}));
  }
}

void FeatureMixer::register_gate() {
  if (!spec_.gate) {
    return;
  }
  gate_scale_ = register_parameter("gate_scale", at::full({shape_.heads}, kGateScale));
  gate_bias_ = register_parameter("gate_bias", at::zeros({shape_.heads}));
  gate_weight_ = register_parameter("gate_weight", at::zeros({shape_.heads, spec_.rank}));
}

std::int64_t parameter_groups(const AttentionSpec& spec, const MixerShape& shape) {
  switch (spec.placement) {
    case Placement::kQueryHead:
      return shape.heads;
    case Placement::kLayer:
      return 1;
    default:
      return shape.kv_heads;
  }
}

std::int64_t FeatureMixer::groups() const {
  return parameter_groups(spec_, shape_);
}

Tensor FeatureMixer::fresh_draws(std::uint64_t seed, std::int64_t draw_index) const {
  return ops::draw_features(groups(), spec_.features, spec_.rank, static_cast<std::int64_t>(seed),
                            shape_.layer, draw_index, spec_.orthogonal);
}

void FeatureMixer::redraw(std::uint64_t seed, std::int64_t draw_index) {
  // Learned draws stay, and so do fitted ones: their weights were computed with them.
  if (!shares_ && has_draws(spec_.kind) && !learns_draws(spec_) && !has_log_weights(spec_.kind)) {
    draws_.copy_(fresh_draws(seed, draw_index));
  }
}

// One set for the layer becomes one for each kv head.
Tensor FeatureMixer::for_op(const Tensor& parameter) const {
  if (spec_.placement != Placement::kLayer || !parameter.defined()) {
    return parameter;
  }
  std::vector<std::int64_t> shape = parameter.sizes().vec();
  shape[0] = shape_.kv_heads;
  return parameter.expand(shape);
}

// The draws, or for the op none of the right shape.
Tensor FeatureMixer::op_draws() const {
  return draws_.defined() ? for_op(draws_)
                          : at::empty({for_op(factor_).size(0), 0, shape_.head_dim},
                                      factor_.options().requires_grad(false));
}

// u_h^T M as a row for each head (H,D): one product instead of mapping every query.
Tensor FeatureMixer::gate_rows() const {
  if (!factor_.defined() || !has_draws(spec_.kind) || spec_.rope == RopeOrder::kBefore) {
    return gate_weight_;
  }
  const Tensor factor = for_op(factor_);
  return at::matmul(gate_weight_.reshape({factor.size(0), -1, spec_.rank}), factor)
      .reshape({shape_.heads, shape_.head_dim});
}

// (B,H,T,2): (c, b + u . sqrt(scale) M (q - a))
Tensor FeatureMixer::gate(const Tensor& q) const {
  const Tensor rows = std::sqrt(shape_.scale) * gate_rows();
  Tensor bias = (q * rows.unsqueeze(1)).sum(-1) + gate_bias_.unsqueeze(1);
  if (query_center_.defined()) {
    const Tensor center = for_op(query_center_);
    bias = bias - (center.repeat_interleave(shape_.heads / center.size(0), 0) * rows).sum(-1, true);
  }
  return at::stack({gate_scale_.unsqueeze(1).expand_as(bias), bias}, -1);
}

ops::DarkOptions FeatureMixer::options(const Tensor& q) const {
  const auto maybe = [&](const Tensor& x) {
    return x.defined() ? ops::Optional<Tensor>(for_op(x)) : ops::Optional<Tensor>();
  };
  ops::DarkOptions o;
  if (spec_.rope == RopeOrder::kAfter) {
    o.factor = maybe(factor_);
    o.key_factor = maybe(key_factor_);
  }
  o.log_weights = maybe(log_weights_);
  o.query_center = maybe(query_center_);
  if (key_center_.defined()) {
    o.key_center = key_center_;
  }
  o.scale = shape_.scale;
  o.window = spec_.window;
  o.sinks = spec_.sinks;
  o.model_near = spec_.near == NearKernel::kModel;
  o.far_all = spec_.far == FarKeys::kAll;
  o.softmax_features = spec_.kind == AttentionKind::kHedgehog;
  if (spec_.gate) {
    o.gate = gate(q);
  }
  return o;
}

Tensor FeatureMixer::forward(const Tensor& q, const Tensor& k, const Tensor& v) {
  return ops::dark_attention(q, k, v, op_draws(), options(q));
}

Tensor FeatureMixer::extend(const Tensor& q, const Tensor& k, const Tensor& v, MixerState& state) {
  const at::NoGradGuard no_gradients;
  if (!state.tensors.empty() && q.size(2) == 1) {
    return ops::dark_attention_step(q, k, v, op_draws(), options(q), state.tensors);
  }
  ops::DarkPrefill read =
      ops::dark_attention_prefill(q, k, v, op_draws(), options(q), state.tensors);
  state.tensors = std::move(read.state);
  return read.out;
}

Tensor FeatureMixer::map_queries(const Tensor& q) {
  return spec_.rope == RopeOrder::kBefore && factor_.defined() ? map_heads(q, for_op(factor_)) : q;
}

Tensor FeatureMixer::map_keys(const Tensor& k) {
  if (spec_.rope != RopeOrder::kBefore || !factor_.defined()) {
    return k;
  }
  return map_heads(k, for_op(key_factor_.defined() ? key_factor_ : factor_));
}

std::int64_t FeatureMixer::state_bytes(std::int64_t) const {
  return feature_state_bytes(shape_, spec_);
}

std::int64_t feature_state_bytes(const MixerShape& shape, const AttentionSpec& spec) {
  const std::int64_t N = spec.placement == Placement::kQueryHead ? shape.heads : shape.kv_heads,
                     D = shape.head_dim;
  const std::int64_t sums = N * (spec.features * (D + 1) + D + 1),
                     near = 2 * shape.kv_heads * (spec.window + spec.sinks) * D;
  return (sums + near) * static_cast<std::int64_t>(sizeof(float)) +
         static_cast<std::int64_t>(sizeof(std::int64_t));
}

}  // namespace darkformer
