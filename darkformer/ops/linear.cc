// Linear maps: checks, then the kernels with their backward, or ATen's own product.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/ops/linear.h"

#include <torch/csrc/autograd/custom_function.h>

#include "darkformer/base/error.h"
#include "darkformer/kernels/linear.h"
#include "darkformer/kernels/linear_backward.h"
#include "darkformer/ops/fresh_tensor.h"
#include "darkformer/ops/tensor_checks.h"

namespace darkformer::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

struct Linear : torch::autograd::Function<Linear> {
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& strided_x,
                            const at::Tensor& strided_weight) {
    const at::Tensor x = strided_x.contiguous(), weight = strided_weight.contiguous();
    auto sizes = x.sizes().vec();
    sizes.back() = weight.size(0);
    at::Tensor y = fresh_tensor(sizes, x.options());
    kernels::linear(stored_matrix(weight), x.data_ptr<float>(), row_count(x), y.data_ptr<float>());
    // x is needed for the weight's gradient alone: a frozen weight does not keep it alive.
    context->save_for_backward({strided_weight.requires_grad() ? x : at::Tensor(), weight});
    context->saved_data["in_sizes"] = x.sizes().vec();
    return y;
  }

  // dx <- dy W            dW <- dy^T x
  static tensor_list backward(AutogradContext* context, const tensor_list& grads) {
    check_first_order("linear");
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const at::Tensor dy = grads[0].contiguous();
    const auto rows = static_cast<std::size_t>(row_count(dy));
    at::Tensor dx, dweight;
    if (context->needs_input_grad(0)) {
      dx = fresh_tensor(context->saved_data["in_sizes"].toIntVector(), dy.options());
      kernels::linear_backward_input(stored_matrix(weight), dy.data_ptr<float>(), rows,
                                     dx.data_ptr<float>());
    }
    if (context->needs_input_grad(1)) {
      dweight = fresh_tensor_like(weight);
      const auto [out, in] = std::pair(weight.size(0), weight.size(1));
      kernels::linear_backward_weight(
          {rows, static_cast<std::size_t>(in), static_cast<std::size_t>(out)}, x.data_ptr<float>(),
          dy.data_ptr<float>(), dweight.data_ptr<float>());
    }
    return {dx, dweight};
  }
};

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight) {
  check_activation("linear", "x", x);
  check_weight_matrix("linear", weight, x);
  require(x.dim() >= 1 && x.size(-1) == weight.size(1), "linear: x is ", describe(x),
          " but weight is ", describe(weight), "; their last sizes must agree");
  return takes_kernels(x) ? Linear::apply(x, weight)
                          : x.matmul(weight.to(x.scalar_type()).transpose(0, 1));
}

}  // namespace darkformer::ops
