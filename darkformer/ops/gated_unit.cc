// Gated units: checks, then the kernel with its backward, or the plain formula.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/ops/gated_unit.h"

#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <numbers>

#include "darkformer/base/error.h"
#include "darkformer/kernels/gated_unit.h"
#include "darkformer/ops/fresh_tensor.h"
#include "darkformer/ops/tensor_checks.h"

namespace darkformer::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

std::size_t count(const at::Tensor& x) {
  return static_cast<std::size_t>(x.numel());
}

struct GatedUnit : torch::autograd::Function<GatedUnit> {
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& strided_gate,
                            const at::Tensor& strided_up,
                            std::int64_t activation) {
    const at::Tensor gate = strided_gate.contiguous(), up = strided_up.contiguous();
    at::Tensor y = fresh_tensor_like(gate);
    kernels::gated_unit(static_cast<Activation>(activation), count(y), gate.data_ptr<float>(),
                        up.data_ptr<float>(), y.data_ptr<float>());
    context->save_for_backward({gate, up});
    context->saved_data["activation"] = activation;
    return y;
  }

  static tensor_list backward(AutogradContext* context, const tensor_list& grads) {
    check_first_order("gated_unit");
    const auto saved = context->get_saved_variables();
    const at::Tensor &gate = saved[0], &up = saved[1];
    const at::Tensor dy = grads[0].contiguous();
    const at::Tensor dgate = fresh_tensor_like(gate), dup = fresh_tensor_like(up);
    const auto activation = static_cast<Activation>(context->saved_data["activation"].toInt());
    kernels::gated_unit_backward(activation, count(dy), gate.data_ptr<float>(),
                                 up.data_ptr<float>(), dy.data_ptr<float>(),
                                 dgate.data_ptr<float>(), dup.data_ptr<float>());
    return {dgate, dup, at::Tensor()};
  }
};

at::Tensor composed(const at::Tensor& gate, const at::Tensor& up, Activation activation) {
  if (activation == Activation::kSilu) {
    return gate * gate.sigmoid() * up;
  }
  const double root = std::sqrt(2.0 / std::numbers::pi);
  const at::Tensor inner = root * (gate + 0.044715 * gate * gate * gate);
  return 0.5 * gate * (1 + inner.tanh()) * up;
}

}  // namespace

at::Tensor gated_unit(const at::Tensor& gate, const at::Tensor& up, Activation activation) {
  check_activation("gated_unit", "gate", gate);
  check_activation("gated_unit", "up", up);
  require(gate.sizes() == up.sizes() && gate.scalar_type() == up.scalar_type() &&
              gate.device() == up.device(),
          "gated_unit: gate is ", describe(gate), " but up is ", describe(up),
          "; they must be alike");
  return takes_kernels(gate) ? GatedUnit::apply(gate, up, static_cast<std::int64_t>(activation))
                             : composed(gate, up, activation);
}

}  // namespace darkformer::ops
