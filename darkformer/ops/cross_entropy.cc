// Cross-entropy: checks, then the blocked kernel with its backward, or the plain formula.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/ops/cross_entropy.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "darkformer/base/error.h"
#include "darkformer/kernels/cross_entropy.h"
#include "darkformer/ops/fresh_tensor.h"
#include "darkformer/ops/tensor_checks.h"

namespace darkformer::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

kernels::CrossEntropyProblem problem_of(const at::Tensor& hidden,
                                        const at::Tensor& weight,
                                        const at::Tensor& targets,
                                        double softcap) {
  return {hidden.data_ptr<float>(), static_cast<std::size_t>(targets.numel()),
          stored_matrix(weight), token_ids(targets), static_cast<float>(softcap)};
}

struct BlockedCrossEntropy : torch::autograd::Function<BlockedCrossEntropy> {
  static tensor_list forward(AutogradContext* context,
                             const at::Tensor& strided_hidden,
                             const at::Tensor& strided_weight,
                             const at::Tensor& strided_targets,
                             double softcap) {
    const at::Tensor hidden = strided_hidden.contiguous(), weight = strided_weight.contiguous(),
                     targets = strided_targets.contiguous();
    const at::Tensor loss = at::empty(targets.sizes(), hidden.options());
    const at::Tensor lse = at::empty_like(loss);
    const at::Tensor correct = at::empty(targets.sizes(), hidden.options().dtype(at::kBool));
    kernels::cross_entropy(problem_of(hidden, weight, targets, softcap),
                           {loss.data_ptr<float>(), lse.data_ptr<float>(),
                            reinterpret_cast<std::uint8_t*>(correct.data_ptr<bool>())});
    context->save_for_backward({hidden, weight, targets, lse});
    context->saved_data["softcap"] = softcap;
    context->mark_non_differentiable({correct});
    return {loss, correct};
  }

  static tensor_list backward(AutogradContext* context, const tensor_list& grads) {
    check_first_order("cross_entropy");
    const auto saved = context->get_saved_variables();
    const at::Tensor &hidden = saved[0], &weight = saved[1], &targets = saved[2], &lse = saved[3];
    const at::Tensor dloss = grads[0].contiguous();
    at::Tensor dhidden, dweight;
    if (context->needs_input_grad(0)) {
      dhidden = fresh_tensor_like(hidden);
    }
    if (context->needs_input_grad(1)) {
      dweight = fresh_tensor_like(weight);
    }
    kernels::cross_entropy_backward(
        problem_of(hidden, weight, targets, context->saved_data["softcap"].toDouble()),
        lse.data_ptr<float>(), dloss.data_ptr<float>(),
        {.dhidden = dhidden.defined() ? dhidden.data_ptr<float>() : nullptr,
         .dweight = dweight.defined() ? dweight.data_ptr<float>() : nullptr});
    return {dhidden, dweight, at::Tensor(), at::Tensor()};
  }
};

tensor_list composed(const at::Tensor& hidden,
                     const at::Tensor& weight,
                     const at::Tensor& targets,
                     double softcap) {
  at::Tensor logits = hidden.matmul(weight.to(hidden.scalar_type()).transpose(0, 1));  // (...,V)
  if (softcap > 0) {
    logits = softcap * (logits / softcap).tanh();
  }
  const at::Tensor kept = targets >= 0;
  const at::Tensor ids = targets.to(at::kLong).clamp_min(0);
  const at::Tensor picked = logits.gather(-1, ids.unsqueeze(-1)).squeeze(-1);
  const at::Tensor loss = (logits.logsumexp(-1) - picked) * kept;
  return {loss, logits.argmax(-1).eq(ids).logical_and(kept)};
}

// The number of targets that are not left out.
std::int64_t check_targets(const at::Tensor& targets, std::int64_t V) {
  const at::Tensor host = targets.contiguous().cpu();
  const kernels::TokenIds ids = token_ids(host);
  std::int64_t counted = 0;
  for (std::int64_t i = 0; i < host.numel(); ++i) {
    const std::int64_t id = ids[static_cast<std::size_t>(i)];
    require(id < V, "cross_entropy: target ", id, " at place ", i, " is outside the vocabulary of ",
            V);
    counted += id >= 0 ? 1 : 0;
  }
  return counted;
}

}  // namespace

at::Tensor CrossEntropy::mean() const {
  return loss.sum() / static_cast<double>(std::max<std::int64_t>(1, counted));
}

std::int64_t CrossEntropy::correct_count() const {
  return correct.sum().item<std::int64_t>();
}

CrossEntropy cross_entropy(const at::Tensor& hidden,
                           const at::Tensor& weight,
                           const at::Tensor& targets,
                           double softcap) {
  check_activation("cross_entropy", "hidden", hidden);
  check_weight_matrix("cross_entropy", weight, hidden);
  check_ids("cross_entropy", "targets", targets);
  require(hidden.dim() >= 1 && hidden.size(-1) == weight.size(1) && weight.size(0) > 0 &&
              targets.sizes() == hidden.sizes().slice(0, hidden.dim() - 1),
          "cross_entropy: hidden is ", describe(hidden), ", weight ", describe(weight),
          " and targets ", describe(targets), "; wanted (...,E), (V,E) and (...)");
  require(softcap >= 0, "cross_entropy: the soft-cap is ", softcap, "; wanted 0 (none) or more");
  const std::int64_t counted = check_targets(targets, weight.size(0));
  const tensor_list result = takes_kernels(hidden)
                                 ? BlockedCrossEntropy::apply(hidden, weight, targets, softcap)
                                 : composed(hidden, weight, targets, softcap);
  return {result[0], result[1], counted};
}

}  // namespace darkformer::ops
