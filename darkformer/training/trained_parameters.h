// Which parameters are trained, and how: decay and learning rate of each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace darkformer {

class Decoder;

enum class TrainScope : std::uint8_t {
  kAll,
  kAttention,  // q_proj, k_proj, v_proj and the parameters of converted attention
};

// By the name in the model folder; for LoadOptions::trains.
bool is_trained(TrainScope scope, const std::string& name);
// Does the name end in one of these, at a dot: "factor" in "model.layers.0.self_attn.dark.factor"?
bool is_named(const std::vector<std::string>& ends, const std::string& name);
// Matrices of the exact model decay; norms, M, gates and learned draws do not.
bool decays(const std::string& name);
// M of converted attention, or both W of hedgehog's.
bool is_factor(const std::string& name);

struct TrainedParameter {
  std::string name;
  at::Tensor value;  // float32, asks for its gradient
  bool decays = true;
  double rate_scale = 1;  // its learning rate over the schedule's
};

// The parameters of a model that ask for gradients, in the model's order. Error: none does.
std::vector<TrainedParameter> trained_parameters(const Decoder& model,
                                                 double factor_rate_scale = 1);

// |g| over all of them, in double, in their order; one without a gradient counts as zero.
double gradient_norm(const std::vector<TrainedParameter>& parameters);
// What gradients are multiplied by so that their norm is at most `limit` (0: no limit).
double clip_scale(double norm, double limit);
void clear_gradients(const std::vector<TrainedParameter>& parameters);

}  // namespace darkformer
