// Linear-time attention with positive features: performer, dark, lfk, the fitted kinds and
// hedgehog, with their options.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "darkformer/model/attention_spec.h"
#include "darkformer/model/mixer.h"
#include "darkformer/ops/dark_attention.h"

namespace darkformer {

// Which tensors a kind has is said by attention_spec.h. N = G, H or 1 sets of them by the spec's
// placement; one set for the whole layer is repeated for every kv head when the op is called.
//   draws (N,F,R)          a buffer; a parameter where it is learned (lfk)
//   factor (N,R,D)         a parameter: M, from the identity (R < D: orthonormal rows)
//   factor, key_factor (N,F/2,D) of hedgehog: parameters, W of queries and keys, both from
//     sqrt(scale) times the identity (F/2 not D: times orthonormal rows)
//   key_factor (N,R,D), log_weights (N,F), query_center (N,D), key_center (G,D): buffers, fitted
//     from data by convert
//   gate_scale (H), gate_bias (H), gate_weight (H,R): c, b and u of the gate;
//   bias_t = b + u . (sqrt(scale) M (q_t - a)), in hedgehog b + u . (sqrt(scale) q_t)
// A layer that uses the keys of an earlier one (`owner`) has a gate of its own; all else is its
// owner's, the tensors themselves, so that both can use one state.
// Where M acts before the rotation it is applied by map_queries and map_keys, and the op sees none.
class FeatureMixer : public Mixer {
 public:
  FeatureMixer(const MixerShape& shape,
               const AttentionSpec& spec,
               std::uint64_t seed,
               std::int64_t draw_index,
               const FeatureMixer* owner = nullptr);

  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) override;
  at::Tensor forward_part(AttentionPart part,
                          const at::Tensor& q,
                          const at::Tensor& k,
                          const at::Tensor& v) override;
  at::Tensor extend(const at::Tensor& q,
                    const at::Tensor& k,
                    const at::Tensor& v,
                    MixerState& state) override;
  at::Tensor map_queries(const at::Tensor& q) override;
  at::Tensor map_keys(const at::Tensor& k) override;
  void redraw(std::uint64_t seed, std::int64_t draw_index) override;
  std::int64_t state_bytes(std::int64_t tokens) const override;

 private:
  std::int64_t groups() const;
  at::Tensor fresh_draws(std::uint64_t seed, std::int64_t draw_index) const;
  void register_features(std::uint64_t seed, std::int64_t draw_index);
  void register_fitted();
  void register_learned_maps(std::uint64_t seed);
  void register_gate();
  at::Tensor for_op(const at::Tensor& parameter) const;
  at::Tensor op_draws() const;
  at::Tensor gate_rows() const;
  at::Tensor gate(const at::Tensor& q) const;
  ops::DarkOptions options(const at::Tensor& q) const;
  at::Tensor with_gate(const at::Tensor& q,
                       const at::Tensor& k,
                       const at::Tensor& v,
                       double bias) const;
  at::Tensor with_constant_far(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) const;

  MixerShape shape_;
  AttentionSpec spec_;
  bool shares_;  // everything but the gate is another layer's
  at::Tensor draws_, factor_, key_factor_, log_weights_, query_center_, key_center_;
  at::Tensor gate_scale_, gate_bias_, gate_weight_;
};

// Of one sequence, whatever its length.
std::int64_t feature_state_bytes(const MixerShape& shape, const AttentionSpec& spec);

// How many sets of parameters a layer has, by their placement.
std::int64_t parameter_groups(const AttentionSpec& spec, const MixerShape& shape);

// The identity (R = D) or random orthonormal rows (R < D), for each of N groups: (N,R,D).
at::Tensor initial_factor(std::int64_t groups,
                          std::int64_t rank,
                          std::int64_t head_dim,
                          std::uint64_t seed,
                          std::int64_t layer);

}  // namespace darkformer
