// Embeddings: checks, then the kernel with its backward, or ATen's look-up.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/ops/embedding.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "darkformer/base/error.h"
#include "darkformer/kernels/embedding.h"
#include "darkformer/ops/fresh_tensor.h"
#include "darkformer/ops/tensor_checks.h"

namespace darkformer::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

struct Embedding : torch::autograd::Function<Embedding> {
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& strided_ids,
                            const at::Tensor& strided_weight,
                            double scale) {
    const at::Tensor ids = strided_ids.contiguous(), weight = strided_weight.contiguous();
    auto sizes = ids.sizes().vec();
    sizes.push_back(weight.size(1));
    at::Tensor y = fresh_tensor(sizes, weight.options().dtype(at::kFloat));
    kernels::embed(stored_matrix(weight), token_ids(ids), ids.numel(), static_cast<float>(scale),
                   y.data_ptr<float>());
    context->save_for_backward({ids});
    context->saved_data["scale"] = scale;
    context->saved_data["V"] = weight.size(0);
    return y;
  }

  // dweight[id] <- sum over the places of id of scale dy
  static tensor_list backward(AutogradContext* context, const tensor_list& grads) {
    check_first_order("embedding");
    const at::Tensor ids = context->get_saved_variables()[0];
    const at::Tensor dy = grads[0].contiguous();
    const std::int64_t V = context->saved_data["V"].toInt(), E = dy.size(-1);
    const at::Tensor dweight = at::zeros({V, E}, dy.options());
    kernels::embed_backward({static_cast<std::size_t>(ids.numel()), static_cast<std::size_t>(V),
                             static_cast<std::size_t>(E)},
                            token_ids(ids), dy.data_ptr<float>(),
                            static_cast<float>(context->saved_data["scale"].toDouble()),
                            dweight.data_ptr<float>());
    return {at::Tensor(), dweight, at::Tensor()};
  }
};

void check_range(const at::Tensor& ids, std::int64_t V) {
  const at::Tensor host = ids.contiguous().cpu();
  const kernels::TokenIds values = token_ids(host);
  for (std::int64_t i = 0; i < host.numel(); ++i) {
    const std::int64_t id = values[static_cast<std::size_t>(i)];
    require(id >= 0 && id < V, "embedding: id ", id, " at place ", i,
            " is outside the vocabulary of ", V);
  }
}

}  // namespace

at::Tensor embedding(const at::Tensor& ids, const at::Tensor& weight, double scale) {
  check_ids("embedding", "ids", ids);
  check_weight_matrix("embedding", weight, weight);
  check_range(ids, weight.size(0));
  if (weight.device().is_cpu() && weight.scalar_type() != at::kDouble) {
    return Embedding::apply(ids, weight, scale);
  }
  auto sizes = ids.sizes().vec();
  sizes.push_back(weight.size(1));
  const at::Tensor rows = weight.index_select(0, ids.flatten().to(weight.device()));
  return rows.to(weight.scalar_type() == at::kDouble ? at::kDouble : at::kFloat).reshape(sizes) *
         scale;
}

}  // namespace darkformer::ops
