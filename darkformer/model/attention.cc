// From hidden states to heads and back.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/attention.h"

#include <ATen/ATen.h>

#include "darkformer/base/error.h"
#include "darkformer/model/model_config.h"
#include "darkformer/ops/rms_norm.h"
#include "darkformer/ops/rotary.h"

namespace darkformer {

MixerShape mixer_shape(const ModelConfig& config, std::int64_t layer) {
  return {.layer = layer,
          .heads = config.heads,
          .kv_heads = config.kv_heads_of(layer),
          .head_dim = config.head_dim_of(layer),
          .scale = config.query_scale(),
          .softcap = config.attn_softcap,
          .window = config.window(layer)};
}

Attention::Attention(const ModelConfig& config,
                     std::int64_t layer,
                     const ParameterPlace& place,
                     std::shared_ptr<RotaryPositions> rotary)
    : heads_(config.heads),
      kv_heads_(config.kv_heads_of(layer)),
      head_dim_(config.head_dim_of(layer)),
      epsilon_(config.rms_norm_eps),
      rotary_(std::move(rotary)) {
  const FamilyParts& parts = config.parts();
  const auto projection = [&](const char* name, std::int64_t in, std::int64_t out, bool biased) {
    return register_module(name, std::make_shared<Projection>(place.child(name), in, out, biased));
  };
  const auto norm = [&](const char* name) {
    return register_module(name,
                           std::make_shared<Norm>(place.child(name), head_dim_,
                                                  NormStyle{config.rms_norm_eps, parts.norm_unit}));
  };
  const std::int64_t E = config.hidden_size, Q = config.query_width(layer),
                     K = config.kv_width(layer);
  const bool owns = config.owns_keys(layer);
  query_ = projection("q_proj", E, Q, config.qkv_bias);
  if (owns) {
    key_ = projection("k_proj", E, K, config.qkv_bias);
    if (!config.values_are_keys(layer)) {
      value_ = projection("v_proj", E, K, config.qkv_bias);
    }
  }
  output_ = projection("o_proj", Q, E, config.output_bias);
  if (parts.qk_norm) {
    query_norm_ = norm("q_norm");
    key_norm_ = owns ? norm("k_norm") : nullptr;
  }
  if (parts.value_norm) {
    value_norm_ = at::ones({head_dim_});
  }
}

void Attention::set_mixer(std::shared_ptr<Mixer> mixer) {
  mixer_ =
      mixer_ ? replace_module("dark", std::move(mixer)) : register_module("dark", std::move(mixer));
}

void Attention::fold_maps(const at::Tensor& query_maps, const at::Tensor& key_maps) {
  require(!query_norm_, "queries and keys are normed between their projections and the map");
  query_->map_heads(query_maps);
  key_->map_heads(key_maps);
}

namespace {

// (B,T,heads D) -> (B,T,heads,D)
at::Tensor split_heads(const at::Tensor& joined, std::int64_t heads) {
  return joined.view({joined.size(0), joined.size(1), heads, -1});
}

}  // namespace

at::Tensor Attention::queries(const at::Tensor& x, const Table& table, std::int64_t start) {
  at::Tensor q = split_heads(query_->forward(x), heads_);  // (B,T,H,D)
  q = query_norm_ ? query_norm_->forward(q) : q;
  return ops::rotary(mixer_->map_queries(q.transpose(1, 2)), table, start);  // (B,H,T,D)
}

KeyValues Attention::keys(const at::Tensor& x, const Table& table, std::int64_t start) {
  at::Tensor k = split_heads(key_->forward(x), kv_heads_);                 // (B,T,G,D)
  at::Tensor v = value_ ? split_heads(value_->forward(x), kv_heads_) : k;  // (B,T,G,D)
  k = key_norm_ ? key_norm_->forward(k) : k;
  v = value_norm_.defined() ? ops::rms_norm(v, value_norm_, epsilon_, 0.0) : v;
  k = ops::rotary(mixer_->map_keys(k.transpose(1, 2)), table, start);  // (B,G,T,D)
  return {k, v.transpose(1, 2)};
}

at::Tensor Attention::join(const at::Tensor& mixed) const {
  return output_->forward(mixed.transpose(1, 2).flatten(2));  // (B,T,E)
}

at::Tensor Attention::forward(const at::Tensor& x, KeyValues* shared) {
  const Table table = rotary_->reaching(x.size(1));
  const at::Tensor q = queries(x, table, 0);
  const KeyValues own = key_ ? keys(x, table, 0) : *shared;
  if (key_ && shared != nullptr) {
    *shared = own;
  }
  return join(mixer_->forward(q, own.k, own.v));
}

at::Tensor Attention::extend(const at::Tensor& x, const LayerReading& reading) {
  const Table table = rotary_->reaching(reading.start + x.size(1));
  const at::Tensor q = queries(x, table, reading.start);
  if (!key_) {
    return join(mixer_->extend_shared(q, reading.shared->k, reading.shared->v, *reading.before,
                                      *reading.state));
  }
  const KeyValues own = keys(x, table, reading.start);
  if (reading.shared != nullptr) {
    *reading.shared = own;
    if (mixer_->shares_by_copy()) {
      *reading.before = reading.state->clone();
    }
  }
  return join(mixer_->extend(q, own.k, own.v, *reading.state));
}

}  // namespace darkformer
