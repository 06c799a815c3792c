// Exact attention over our kernels, with the composition where they do not run.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/ops/exact_attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

#include "darkformer/base/error.h"
#include "darkformer/kernels/exact_attention.h"
#include "darkformer/ops/dark_sizes.h"
#include "darkformer/ops/fresh_tensor.h"
#include "darkformer/ops/heads_tensor.h"
#include "darkformer/ops/tensor_checks.h"

namespace darkformer::ops {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

kernels::ExactAttention kernel_shape(const Tensor& q,
                                     const Tensor& k,
                                     const Tensor& v,
                                     const ExactOptions& o) {
  const auto size = [](std::int64_t x) { return static_cast<std::size_t>(x); };
  kernels::ExactAttention shape;
  shape.B = size(q.size(0)), shape.H = size(q.size(1)), shape.G = size(k.size(1)),
  shape.T = size(q.size(2)), shape.S = size(k.size(2));
  shape.D = size(q.size(3)), shape.Dv = size(v.size(3));
  shape.scale = static_cast<float>(o.scale.value()), shape.causal = o.causal,
  shape.window = size(std::min(o.window, k.size(2))), shape.softcap = static_cast<float>(o.softcap);
  return shape;
}

kernels::HeadsView<float> rows_view(const Tensor& x) {
  return {x.data_ptr<float>(), x.stride(0), x.stride(1), x.stride(2), 1};
}

class ExactFunction : public torch::autograd::Function<ExactFunction> {
 public:
  static Tensor forward(AutogradContext* context,
                        const ExactOptions& o,
                        const Tensor& q,
                        const Tensor& k,
                        const Tensor& v) {
    const Tensor out = fresh_tensor({q.size(0), q.size(1), q.size(2), v.size(3)}, q.options());
    const Tensor lse = at::empty({q.size(0), q.size(1), q.size(2)}, q.options());
    kernels::exact_attention(kernel_shape(q, k, v, o),
                             {heads_view(q), heads_view(k), heads_view(v)},
                             {heads_view_of_output(out), rows_view(lse)});
    context->save_for_backward({q, k, v, out, lse});
    context->saved_data["scale"] = o.scale.value();
    context->saved_data["causal"] = o.causal;
    context->saved_data["window"] = o.window;
    context->saved_data["softcap"] = o.softcap;
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list d_out) {
    check_first_order("exact_attention");
    const variable_list x = context->get_saved_variables();
    auto& data = context->saved_data;
    const ExactOptions o = {data["scale"].toDouble(), data["causal"].toBool(),
                            data["window"].toInt(), data["softcap"].toDouble()};
    const Tensor dq = fresh_tensor_like(x[0]), dk = fresh_tensor_like(x[1]),
                 dv = fresh_tensor_like(x[2]);
    const auto lse = rows_view(x[4]);
    kernels::exact_attention_backward(
        kernel_shape(x[0], x[1], x[2], o), {heads_view(x[0]), heads_view(x[1]), heads_view(x[2])},
        {heads_view(x[3]), {lse.data, lse.batch, lse.head, lse.time, 1}, heads_view(d_out[0]), {}},
        {heads_view_of_output(dq), heads_view_of_output(dk), heads_view_of_output(dv)});
    return {Tensor(), dq, dk, dv};
  }
};

Tensor composition(const Tensor& q, const Tensor& k, const Tensor& v, const ExactOptions& o) {
  const std::int64_t shared = q.size(1) / k.size(1), T = q.size(2), S = k.size(2);
  Tensor scores = at::matmul(q, k.repeat_interleave(shared, 1).transpose(-1, -2)) * o.scale.value();
  if (o.softcap > 0.0) {
    scores = o.softcap * at::tanh(scores / o.softcap);
  }
  if (o.causal) {
    Tensor visible =
        at::ones({T, S}, q.options().dtype(at::kBool).requires_grad(false)).tril(S - T);
    if (o.window > 0) {
      visible = visible.triu(S - T - o.window + 1);
    }
    scores = scores.masked_fill(~visible, -INFINITY);
  }
  return at::matmul(at::softmax(scores, -1), v.repeat_interleave(shared, 1));
}

void check_exact(const Tensor& q, const Tensor& k, const Tensor& v, const ExactOptions& o) {
  check_attention_inputs("exact_attention", q, k, v);
  require(std::isfinite(o.scale.value()) && o.scale.value() > 0.0, "exact_attention: scale is ",
          o.scale.value(), "; it must be positive and finite");
  require(o.window >= 0, "exact_attention: window is ", o.window, "; it may not be negative");
  require(o.causal || o.window == 0, "exact_attention: a window of ", o.window,
          " needs causal attention");
  require(!o.causal || q.size(2) <= k.size(2), "exact_attention: ", q.size(2), " queries for ",
          k.size(2), " keys; causal attention needs at least as many keys");
  require(std::isfinite(o.softcap) && o.softcap >= 0.0, "exact_attention: softcap is ", o.softcap,
          "; it must be 0 (none) or positive");
}

}  // namespace

Tensor exact_attention(const Tensor& q,
                       const Tensor& k,
                       const Tensor& v,
                       const ExactOptions& options) {
  ExactOptions o = options;
  o.scale = options.scale.value_or(q.defined() && q.dim() == 4 && q.size(3) > 0
                                       ? 1.0 / std::sqrt(static_cast<double>(q.size(3)))
                                       : 1.0);
  check_exact(q, k, v, o);
  if (q.is_meta()) {
    return at::empty({q.size(0), q.size(1), q.size(2), v.size(3)}, q.options());
  }
  const auto type = q.scalar_type() == at::kBFloat16 ? at::kFloat : q.scalar_type();
  const Tensor x = q.to(type), y = k.to(type), z = v.to(type);
  return (runs_kernels(q) ? ExactFunction::apply(o, x, y, z) : composition(x, y, z, o))
      .to(q.scalar_type());
}

}  // namespace darkformer::ops
