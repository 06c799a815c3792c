// The blocks of a Gemma 1 as one would write them with ATen alone.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/rivals/plain_gemma.h"

#include <ATen/ATen.h>

#include <cmath>

#include "darkformer/base/error.h"
#include "darkformer/model/decoder.h"
#include "darkformer/rivals/plain_attention.h"

namespace darkformer::rivals {
namespace {

using at::Tensor;

void check(const ModelConfig& config) {
  require(config.family == Family::kGemma1, "rival: wanted a Gemma 1, got a ",
          config.parts().model_type);
  for (const AttentionSpec& spec : config.attention) {
    const bool features = spec.kind == AttentionKind::kPerformer ||
                          spec.kind == AttentionKind::kDark || spec.kind == AttentionKind::kLfk;
    const bool plain = spec.window == 0 && spec.sinks == 0 && !spec.centre && !spec.gate &&
                       !spec.learned_draws && !spec.own_key_factor &&
                       spec.placement == Placement::kKvHead && spec.rope == RopeOrder::kAfter;
    require(spec.kind == AttentionKind::kExact || (features && plain), "rival: no layer of kind ",
            attention_kind_name(spec.kind), " with these options");
  }
}

std::string layer_name(std::int64_t layer) {
  return concat("model.layers.", layer, ".");
}

}  // namespace

PlainGemma::PlainGemma(const Decoder& model) : config_(model.config()) {
  check(config_);
  for (const auto& entry : model.named_parameters()) {
    const Tensor copy = entry.value().detach().to(at::kFloat).clone();
    moments_[entry.key()] = {at::zeros_like(copy), at::zeros_like(copy)};
    parameters_[entry.key()] = copy.requires_grad_();
  }
  for (const auto& entry : model.named_buffers()) {
    buffers_[entry.key()] = entry.value().detach().clone();
  }
  const std::int64_t half = config_.head_dim / 2;
  const Tensor exponents = at::arange(half, at::kDouble) / static_cast<double>(half);
  const Tensor frequencies = at::pow(config_.rope_full.base, -exponents) / config_.rope_full.factor;
  const Tensor angles = at::outer(at::arange(config_.max_positions, at::kDouble), frequencies);
  cosines_ = at::cat({angles, angles}, 1).cos().to(at::kFloat);
  sines_ = at::cat({angles, angles}, 1).sin().to(at::kFloat);
}

const Tensor& PlainGemma::weight(const std::string& name) const {
  const auto found = parameters_.find(name);
  return found != parameters_.end() ? found->second : buffers_.at(name);
}

Tensor PlainGemma::norm(const Tensor& x, const std::string& name) const {
  const Tensor scale = (x.square().mean(-1, /*keepdim=*/true) + config_.rms_norm_eps).rsqrt();
  return x * scale * (weight(name) + 1);
}

// x (B,heads,T,D)
Tensor PlainGemma::rotate(const Tensor& x) const {
  const std::int64_t T = x.size(2), half = x.size(3) / 2;
  const Tensor turned = at::cat({-x.narrow(3, half, half), x.narrow(3, 0, half)}, 3);
  return x * cosines_.narrow(0, 0, T) + turned * sines_.narrow(0, 0, T);
}

Tensor PlainGemma::mix(const Tensor& q,
                       const Tensor& k,
                       const Tensor& v,
                       std::int64_t layer) const {
  const AttentionSpec& spec = config_.attention[static_cast<std::size_t>(layer)];
  if (spec.kind == AttentionKind::kExact) {
    return softmax_attention(q, k, v, config_.query_scale());
  }
  const std::string prefix = layer_name(layer) + "self_attn.dark.";
  PlainFeatures features{weight(prefix + "draws"), {}};
  if (spec.kind == AttentionKind::kDark) {
    features.factor = weight(prefix + "factor");
  }
  return feature_attention(q, k, v, features, config_.query_scale());
}

Tensor PlainGemma::attention(const Tensor& x, std::int64_t layer) const {
  const std::string prefix = layer_name(layer) + "self_attn.";
  const auto heads = [&](const char* name, std::int64_t count) {
    return at::linear(x, weight(prefix + name))
        .view({x.size(0), x.size(1), count, config_.head_dim})
        .transpose(1, 2);
  };
  const Tensor q = rotate(heads("q_proj.weight", config_.heads));     // (B,H,T,D)
  const Tensor k = rotate(heads("k_proj.weight", config_.kv_heads));  // (B,G,T,D)
  const Tensor v = heads("v_proj.weight", config_.kv_heads);          // (B,G,T,D)
  const Tensor mixed = mix(q, k, v, layer).transpose(1, 2).flatten(2);
  return at::linear(mixed, weight(prefix + "o_proj.weight"));  // (B,T,E)
}

Tensor PlainGemma::feed_forward(const Tensor& x, const std::string& prefix) const {
  const Tensor gate = at::gelu(at::linear(x, weight(prefix + "gate_proj.weight")), "tanh");
  return at::linear(gate * at::linear(x, weight(prefix + "up_proj.weight")),
                    weight(prefix + "down_proj.weight"));
}

Tensor PlainGemma::loss(const Tensor& ids, const Tensor& targets) const {
  require(ids.size(1) <= config_.max_positions, "rival: ", ids.size(1), " tokens, but at most ",
          config_.max_positions, " positions");
  const Tensor& words = weight("model.embed_tokens.weight");
  Tensor x = at::embedding(words, ids) * std::sqrt(static_cast<double>(config_.hidden_size));
  for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
    const std::string prefix = layer_name(layer);
    x = x + attention(norm(x, prefix + "input_layernorm.weight"), layer);
    x = x + feed_forward(norm(x, prefix + "post_attention_layernorm.weight"), prefix + "mlp.");
  }
  const Tensor logits = at::linear(norm(x, "model.norm.weight"), words);  // (B,T,V)
  return at::cross_entropy_loss(logits.flatten(0, 1), targets.flatten(), {}, at::Reduction::Mean,
                                /*ignore_index=*/-1);
}

void PlainGemma::clear_gradients() {
  for (auto& [name, value] : parameters_) {
    value.mutable_grad() = Tensor();
  }
}

void PlainGemma::limit_gradients(double clip) const {
  std::vector<Tensor> norms;
  for (const auto& [name, value] : parameters_) {
    norms.push_back(value.grad().norm());
  }
  const double norm = at::stack(norms).norm().item<double>();
  if (clip > 0 && norm > clip) {
    for (const auto& [name, value] : parameters_) {
      value.grad().mul_(clip / norm);
    }
  }
}

// Matrices of the exact model decay; norms, factors and draws do not.
void PlainGemma::update(double rate, const OptimizerOptions& options) {
  const auto step = static_cast<double>(++steps_);
  const double correction1 = 1 - std::pow(options.beta1, step);
  const double correction2 = std::sqrt(1 - std::pow(options.beta2, step));
  for (auto& [name, value] : parameters_) {
    const Tensor& gradient = value.grad();
    const auto& [m, v] = moments_.at(name);
    if (value.dim() == 2) {
      value.mul_(1 - rate * options.weight_decay);
    }
    m.mul_(options.beta1).add_(gradient, 1 - options.beta1);
    v.mul_(options.beta2).addcmul_(gradient, gradient, 1 - options.beta2);
    value.addcdiv_(m, (v.sqrt() / correction2).add_(options.epsilon), -rate / correction1);
  }
}

double PlainGemma::step(const Tensor& ids,
                        const Tensor& targets,
                        double rate,
                        const OptimizerOptions& options,
                        double clip) {
  const Tensor mean = loss(ids, targets);
  mean.backward();
  const at::NoGradGuard no_gradients;
  limit_gradients(clip);
  update(rate, options);
  clear_gradients();
  return mean.item<double>();
}

}  // namespace darkformer::rivals
