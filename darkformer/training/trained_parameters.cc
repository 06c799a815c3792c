// Choosing parameters by name, and their gradients as one vector.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/training/trained_parameters.h"

#include <algorithm>
#include <cmath>

#include "darkformer/base/error.h"
#include "darkformer/kernels/squared_norm.h"
#include "darkformer/model/decoder.h"

namespace darkformer {
namespace {

bool contains(const std::string& name, const char* part) {
  return name.find(part) != std::string::npos;
}

}  // namespace

bool is_trained(TrainScope scope, const std::string& name) {
  return scope == TrainScope::kAll || contains(name, ".self_attn.q_proj.") ||
         contains(name, ".self_attn.k_proj.") || contains(name, ".self_attn.v_proj.") ||
         contains(name, ".self_attn.dark.");
}

bool is_named(const std::vector<std::string>& ends, const std::string& name) {
  return std::any_of(ends.begin(), ends.end(), [&](const std::string& end) {
    return name == end || name.ends_with("." + end);
  });
}

bool decays(const std::string& name) {
  return !contains(name, "norm.weight") && !contains(name, ".self_attn.dark.");
}

bool is_factor(const std::string& name) {
  return contains(name, ".self_attn.dark.factor") || contains(name, ".self_attn.dark.key_factor");
}

std::vector<TrainedParameter> trained_parameters(const Decoder& model, double factor_rate_scale) {
  std::vector<TrainedParameter> parameters;
  for (const auto& entry : model.named_parameters()) {
    if (entry.value().requires_grad()) {
      parameters.push_back({entry.key(), entry.value(), decays(entry.key()),
                            is_factor(entry.key()) ? factor_rate_scale : 1.0});
    }
  }
  require(!parameters.empty(), "training: the model has no parameter to train");
  return parameters;
}

double gradient_norm(const std::vector<TrainedParameter>& parameters) {
  double sum = 0;
  for (const TrainedParameter& parameter : parameters) {
    const at::Tensor& gradient = parameter.value.grad();
    if (gradient.defined()) {
      const at::Tensor values = gradient.contiguous();
      sum +=
          kernels::squared_norm(values.data_ptr<float>(), static_cast<std::size_t>(values.numel()));
    }
  }
  return std::sqrt(sum);
}

double clip_scale(double norm, double limit) {
  return limit > 0 && norm > limit ? limit / norm : 1.0;
}

void clear_gradients(const std::vector<TrainedParameter>& parameters) {
  for (const TrainedParameter& parameter : parameters) {
    parameter.value.mutable_grad() = at::Tensor();
  }
}

}  // namespace darkformer
