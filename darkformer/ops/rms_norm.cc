// RMSNorm: checks, then the kernel with its backward, or the plain formula.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/ops/rms_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "darkformer/base/error.h"
#include "darkformer/kernels/rms_norm.h"
#include "darkformer/ops/fresh_tensor.h"
#include "darkformer/ops/tensor_checks.h"

namespace darkformer::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

kernels::RmsNormShape shape_of(const at::Tensor& x, double epsilon, double unit) {
  return {static_cast<std::size_t>(row_count(x)), static_cast<std::size_t>(x.size(-1)),
          static_cast<float>(epsilon), static_cast<float>(unit)};
}

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& strided_x,
                            const at::Tensor& strided_weight,
                            double epsilon,
                            double unit) {
    const at::Tensor x = strided_x.contiguous(), weight = strided_weight.contiguous();
    at::Tensor y = fresh_tensor_like(x);
    kernels::rms_norm(shape_of(x, epsilon, unit), x.data_ptr<float>(), weight.data_ptr<float>(),
                      y.data_ptr<float>());
    context->save_for_backward({x, weight});
    context->saved_data["epsilon"] = epsilon;
    context->saved_data["unit"] = unit;
    return y;
  }

  static tensor_list backward(AutogradContext* context, const tensor_list& grads) {
    check_first_order("rms_norm");
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const at::Tensor dy = grads[0].contiguous();
    at::Tensor dx, dweight;
    if (context->needs_input_grad(0)) {
      dx = fresh_tensor_like(x);
    }
    if (context->needs_input_grad(1)) {
      dweight = at::empty_like(weight);
    }
    kernels::rms_norm_backward(shape_of(x, context->saved_data["epsilon"].toDouble(),
                                        context->saved_data["unit"].toDouble()),
                               x.data_ptr<float>(), weight.data_ptr<float>(), dy.data_ptr<float>(),
                               {.dx = dx.defined() ? dx.data_ptr<float>() : nullptr,
                                .dw = dweight.defined() ? dweight.data_ptr<float>() : nullptr});
    return {dx, dweight, at::Tensor(), at::Tensor()};
  }
};

at::Tensor composed(const at::Tensor& x, const at::Tensor& weight, double epsilon, double unit) {
  const at::Tensor mean_square = x.square().mean(-1, /*keepdim=*/true);
  return x * (mean_square + epsilon).rsqrt() * (weight + unit);
}

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon, double unit) {
  check_activation("rms_norm", "x", x);
  require(x.dim() >= 1 && weight.defined() && weight.is_floating_point() && weight.dim() == 1 &&
              weight.size(0) == x.size(-1) && weight.device() == x.device(),
          "rms_norm: x is ", describe(x), " but weight is ", describe(weight),
          "; the weight must have the last size of x and its device");
  const at::Tensor w = weight.to(x.scalar_type());
  return takes_kernels(x) ? RmsNorm::apply(x, w, epsilon, unit) : composed(x, w, epsilon, unit);
}

}  // namespace darkformer::ops
