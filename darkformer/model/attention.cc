// From hidden states to heads and back.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/attention.h"

#include <ATen/ATen.h>

#include "darkformer/base/error.h"
#include "darkformer/ops/rotary.h"

namespace darkformer {

MixerShape mixer_shape(const ModelConfig& config, std::int64_t layer) {
  return {.layer = layer,
          .heads = config.heads,
          .kv_heads = config.kv_heads,
          .head_dim = config.head_dim,
          .scale = config.query_scale(),
          .softcap = config.attn_softcap,
          .window = config.window(layer)};
}

Attention::Attention(const ModelConfig& config,
                     std::int64_t layer,
                     const ParameterPlace& place,
                     std::shared_ptr<RotaryPositions> rotary)
    : heads_(config.heads),
      kv_heads_(config.kv_heads),
      head_dim_(config.head_dim),
      rotary_(std::move(rotary)) {
  const auto projection = [&](const char* name, std::int64_t in, std::int64_t out) {
    return register_module(name, std::make_shared<Projection>(place.child(name), in, out));
  };
  const auto norm = [&](const char* name) {
    return register_module(
        name, std::make_shared<Norm>(place.child(name), head_dim_, config.rms_norm_eps));
  };
  query_ = projection("q_proj", config.hidden_size, config.query_width());
  key_ = projection("k_proj", config.hidden_size, config.kv_width());
  value_ = projection("v_proj", config.hidden_size, config.kv_width());
  output_ = projection("o_proj", config.query_width(), config.hidden_size);
  if (config.has_qk_norm()) {
    query_norm_ = norm("q_norm");
    key_norm_ = norm("k_norm");
  }
  mixer_ = register_module("dark", make_mixer(mixer_shape(config, layer), config.attention[layer],
                                              config.seed, config.draw_index));
}

void Attention::set_mixer(std::shared_ptr<Mixer> mixer) {
  mixer_ = replace_module("dark", std::move(mixer));
}

void Attention::fold_maps(const at::Tensor& query_maps, const at::Tensor& key_maps) {
  require(!query_norm_, "queries and keys are normed between their projections and the map");
  const at::NoGradGuard no_gradients;
  const auto fold = [&](Projection& projection, const at::Tensor& maps) {
    const at::Tensor weight = projection.value().to(at::kFloat);  // (heads D,E)
    const at::Tensor heads = weight.reshape({maps.size(0), head_dim_, -1});
    projection.set_value(at::matmul(maps, heads).reshape(weight.sizes()));
  };
  fold(*query_, query_maps);
  fold(*key_, key_maps);
}

Attention::Heads Attention::project(const at::Tensor& x, std::int64_t start) {
  const std::int64_t B = x.size(0), T = x.size(1);
  const auto split = [&](const at::Tensor& joined, std::int64_t heads) {
    return joined.view({B, T, heads, head_dim_});
  };
  at::Tensor q = split(query_->forward(x), heads_);           // (B,T,H,D)
  at::Tensor k = split(key_->forward(x), kv_heads_);          // (B,T,G,D)
  const at::Tensor v = split(value_->forward(x), kv_heads_);  // (B,T,G,D)
  if (query_norm_) {
    q = query_norm_->forward(q);
    k = key_norm_->forward(k);
  }
  const auto table = rotary_->reaching(start + T);
  q = ops::rotary(mixer_->map_queries(q.transpose(1, 2)), table, start);  // (B,H,T,D)
  k = ops::rotary(mixer_->map_keys(k.transpose(1, 2)), table, start);     // (B,G,T,D)
  return {q, k, v.transpose(1, 2)};
}

at::Tensor Attention::join(const at::Tensor& mixed) const {
  return output_->forward(mixed.transpose(1, 2).flatten(2));  // (B,T,E)
}

at::Tensor Attention::forward(const at::Tensor& x) {
  const Heads heads = project(x, 0);
  return join(mixer_->forward(heads.q, heads.k, heads.v));
}

at::Tensor Attention::extend(const at::Tensor& x, std::int64_t start, MixerState& state) {
  const Heads heads = project(x, start);
  return join(mixer_->extend(heads.q, heads.k, heads.v, state));
}

}  // namespace darkformer
