// A node of the autograd graph that holds a function instead of its inner graph.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/recompute.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "darkformer/base/error.h"

namespace darkformer {
namespace {

using at::Tensor;
using torch::autograd::variable_list;

// Its edges lead to x and the parameters, so that gradients arrive there as from any other node:
// hooks on the parameters' accumulators see them.
class Recompute : public torch::autograd::Node {
 public:
  Recompute(TensorFunction run, const Tensor& x, std::vector<Tensor> parameters)
      : run_(std::move(run)), x_(x.detach()), parameters_(std::move(parameters)) {}

  variable_list apply(variable_list&& d_y) override {
    require(x_.defined(), "recompute: the backward pass was asked for twice");
    const at::AutoGradMode gradients(true);
    Tensor x = x_.detach();
    x.requires_grad_(should_compute_output(0));
    const Tensor y = run_(x);
    variable_list wanted;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i <= parameters_.size(); ++i) {
      if (should_compute_output(i)) {
        wanted.push_back(i == 0 ? x : parameters_[i - 1]);
        places.push_back(i);
      }
    }
    const variable_list found =
        torch::autograd::grad({y}, wanted, {d_y[0]}, /*retain_graph=*/false,
                              /*create_graph=*/false, /*allow_unused=*/true);
    variable_list all(parameters_.size() + 1);
    for (std::size_t i = 0; i < places.size(); ++i) {
      all[places[i]] = found[i];
    }
    return all;
  }

  void release_variables() override {
    x_.reset();
    run_ = nullptr;
  }

 private:
  TensorFunction run_;
  Tensor x_;
  std::vector<Tensor> parameters_;
};

}  // namespace

Tensor recomputed(TensorFunction run, const Tensor& x, const std::vector<Tensor>& parameters) {
  variable_list inputs = {x};
  inputs.insert(inputs.end(), parameters.begin(), parameters.end());
  if (!at::GradMode::is_enabled() || !torch::autograd::compute_requires_grad(inputs)) {
    return run(x);
  }
  Tensor y;
  {
    const at::NoGradGuard no_gradients;
    y = run(x);
  }
  const std::shared_ptr<Recompute> node(new Recompute(std::move(run), x, parameters),
                                        torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  torch::autograd::set_history(y, node);
  return y;
}

}  // namespace darkformer
