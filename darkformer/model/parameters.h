// Where the weights of a model come from, and the smallest modules that hold them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace darkformer {

// Gives the weight of a name, as in a model folder ("model.layers.0.mlp.up_proj.weight"), with this
// shape: read from a file, drawn at random, ... float32, bfloat16 or float16 on the CPU; it asks
// for a gradient where it is to be trained.
using ParameterMaker =
    std::function<at::Tensor(const std::string& name, const std::vector<std::int64_t>& shape)>;

// A maker and a place in the tree of names.
class ParameterPlace {
 public:
  ParameterPlace(const ParameterMaker& make, std::string prefix)
      : make_(make), prefix_(std::move(prefix)) {}

  ParameterPlace child(const std::string& name) const { return {make_, prefix_ + name + "."}; }
  at::Tensor weight(const std::vector<std::int64_t>& shape) const {
    return make_(prefix_ + "weight", shape);
  }

 private:
  const ParameterMaker& make_;
  std::string prefix_;
};

// One tensor named "weight"; what is done with it is the holder's business.
class Weight : public torch::nn::Module {
 public:
  Weight(const ParameterPlace& place, const std::vector<std::int64_t>& shape);

  const at::Tensor& value() const { return value_; }
  // Other values of the same shape, in their own type.
  void set_value(const at::Tensor& value) { value_.set_data(value); }

 private:
  at::Tensor value_;
};

// x -> x W^T, W (out, in).
class Projection : public Weight {
 public:
  Projection(const ParameterPlace& place, std::int64_t in, std::int64_t out)
      : Weight(place, {out, in}) {}

  at::Tensor forward(const at::Tensor& x) const;
};

// x -> x / rms(x) (1 + w), w (size).
class Norm : public Weight {
 public:
  Norm(const ParameterPlace& place, std::int64_t size, double epsilon)
      : Weight(place, {size}), epsilon_(epsilon) {}

  at::Tensor forward(const at::Tensor& x) const;

 private:
  double epsilon_;
};

}  // namespace darkformer
