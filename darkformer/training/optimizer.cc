// Updates and their state on disk.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/training/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/checkpoint/safetensors.h"
#include "darkformer/checkpoint/tensor_bytes.h"
#include "darkformer/kernels/adamw.h"

namespace darkformer {
namespace {

namespace fs = std::filesystem;

void restore(const SafetensorsFile& file, const std::string& name, const at::Tensor& into) {
  const TensorView* view = file.find(name);
  require(view != nullptr, file.path().string(), ": tensor '", name,
          "' is missing; the run trains other parameters now than when it was saved");
  const at::Tensor saved = copied_tensor(*view);
  require(saved.sizes() == into.sizes() && saved.scalar_type() == into.scalar_type(),
          file.path().string(), ": tensor '", name, "' is ", shape_text(view->shape), ", wanted ",
          shape_text(into.sizes().vec()));
  into.copy_(saved);
}

}  // namespace

Optimizer::Optimizer(std::vector<TrainedParameter> parameters, const OptimizerOptions& options)
    : parameters_(std::move(parameters)), options_(options), moments_(parameters_.size()) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& value = parameters_[i].value;
    require(value.is_contiguous() && value.scalar_type() == at::kFloat, parameters_[i].name,
            ": only contiguous float32 parameters can be trained");
    if (options_.kind == OptimizerKind::kAdamw) {
      moments_[i] = {at::zeros_like(value.detach()), at::zeros_like(value.detach())};
    }
  }
}

void Optimizer::step(double rate, double gradient_scale) {
  const at::NoGradGuard no_gradients;
  ++steps_;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].value.grad().defined()) {
      update(parameters_[i], moments_[i], rate * parameters_[i].rate_scale, gradient_scale);
    }
  }
}

void Optimizer::update(const TrainedParameter& parameter,
                       const Moments& moments,
                       double rate,
                       double gradient_scale) const {
  const double decay = parameter.decays ? options_.weight_decay : 0.0;
  const at::Tensor gradient = parameter.value.grad().contiguous();
  if (options_.kind == OptimizerKind::kSgd) {
    at::Tensor value = parameter.value.detach();
    value.mul_(1 - rate * decay).sub_(gradient, rate * gradient_scale);
    return;
  }
  kernels::adamw_step(
      {.learning_rate = rate,
       .beta1 = options_.beta1,
       .beta2 = options_.beta2,
       .epsilon = options_.epsilon,
       .weight_decay = decay,
       .gradient_scale = gradient_scale,
       .step = steps_},
      {parameter.value.data_ptr<float>(), gradient.data_ptr<float>(), moments.m.data_ptr<float>(),
       moments.v.data_ptr<float>(), static_cast<std::size_t>(gradient.numel())});
}

void Optimizer::save(const fs::path& file) const {
  std::vector<TensorSource> sources;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (moments_[i].m.defined()) {
      sources.push_back(source_of("m." + parameters_[i].name, moments_[i].m));
      sources.push_back(source_of("v." + parameters_[i].name, moments_[i].v));
    }
  }
  write_safetensors(file, std::move(sources));
}

void Optimizer::load(const fs::path& file, std::int64_t steps) {
  const SafetensorsFile saved(file);
  std::size_t wanted = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (moments_[i].m.defined()) {
      restore(saved, "m." + parameters_[i].name, moments_[i].m);
      restore(saved, "v." + parameters_[i].name, moments_[i].v);
      wanted += 2;
    }
  }
  require(saved.tensors().size() == wanted, file.string(), ": holds ",
          count_text(saved.tensors().size(), "tensor"), ", wanted ", wanted,
          "; the run trains other parameters now than when it was saved");
  steps_ = steps;
}

}  // namespace darkformer
