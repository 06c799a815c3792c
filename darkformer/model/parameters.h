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
  at::Tensor tensor(const char* name, const std::vector<std::int64_t>& shape) const {
    return make_(prefix_ + name, shape);
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

// x -> x W^T + b, W (out, in), b (out) where there is one.
class Projection : public Weight {
 public:
  Projection(const ParameterPlace& place, std::int64_t in, std::int64_t out, bool biased = false);

  at::Tensor forward(const at::Tensor& x) const;
  // (heads D,in) <- M (heads D,in) for maps M (heads,D,D), as float32; the bias alike.
  void map_heads(const at::Tensor& maps);

 private:
  at::Tensor bias_;  // undefined: none
};

// How a model's norms are: x -> x / rms(x) (unit + w).
struct NormStyle {
  double epsilon = 1e-6;
  double unit = 1;
};

class Norm : public Weight {
 public:
  Norm(const ParameterPlace& place, std::int64_t size, const NormStyle& style)
      : Weight(place, {size}), style_(style) {}

  at::Tensor forward(const at::Tensor& x) const;

 private:
  NormStyle style_;
};

}  // namespace darkformer
