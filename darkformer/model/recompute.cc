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

// Its edges lead to the inputs and the parameters, so that gradients arrive there as from any other
// node: hooks on the parameters' accumulators see them.
class Recompute : public torch::autograd::Node {
 public:
  Recompute(TensorsFunction run, const variable_list& inputs, variable_list parameters)
      : run_(std::move(run)), parameters_(std::move(parameters)) {
    for (const Tensor& input : inputs) {
      inputs_.push_back(input.defined() ? input.detach() : input);
    }
  }

  variable_list apply(variable_list&& d_y) override {
    require(run_ != nullptr, "recompute: the backward pass was asked for twice");
    const at::AutoGradMode gradients(true);
    const variable_list inputs = fresh_inputs();
    const Outputs y = outputs_with_gradients(run_(inputs), d_y);
    variable_list all(inputs.size() + parameters_.size()), wanted;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (should_compute_output(i)) {
        wanted.push_back(i < inputs.size() ? inputs[i] : parameters_[i - inputs.size()]);
        places.push_back(i);
      }
    }
    const variable_list found =
        torch::autograd::grad(y.values, wanted, y.gradients, /*retain_graph=*/false,
                              /*create_graph=*/false, /*allow_unused=*/true);
    for (std::size_t i = 0; i < places.size(); ++i) {
      all[places[i]] = found[i];
    }
    return all;
  }

  void release_variables() override {
    inputs_.clear();
    run_ = nullptr;
  }

 private:
  struct Outputs {
    variable_list values, gradients;
  };

  // Leaves that ask for the gradients that are asked of us.
  variable_list fresh_inputs() const {
    variable_list inputs;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      inputs.push_back(inputs_[i].defined() ? inputs_[i].detach() : inputs_[i]);
      if (inputs_[i].defined()) {
        inputs.back().requires_grad_(should_compute_output(i));
      }
    }
    return inputs;
  }

  // Outputs that nobody used have no gradient.
  static Outputs outputs_with_gradients(const variable_list& y, const variable_list& d_y) {
    Outputs used;
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (d_y[i].defined() && y[i].requires_grad()) {
        used.values.push_back(y[i]);
        used.gradients.push_back(d_y[i]);
      }
    }
    return used;
  }

  TensorsFunction run_;
  variable_list inputs_, parameters_;
};

}  // namespace

variable_list recomputed(TensorsFunction run,
                         const variable_list& inputs,
                         const variable_list& parameters) {
  variable_list sources = inputs;
  sources.insert(sources.end(), parameters.begin(), parameters.end());
  if (!at::GradMode::is_enabled() || !torch::autograd::compute_requires_grad(sources)) {
    return run(inputs);
  }
  variable_list y;
  {
    const at::NoGradGuard no_gradients;
    y = run(inputs);
  }
  const std::shared_ptr<Recompute> node(new Recompute(std::move(run), inputs, parameters),
                                        torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(sources));
  for (Tensor& output : y) {
    torch::autograd::set_history(output, node);
  }
  return y;
}

}  // namespace darkformer
