// The rivals' attention gives the outputs and gradients of ours.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/rivals/plain_attention.h"

#include <ATen/Context.h>
#include <ATen/ops/randn.h>

#include "darkformer/ops/dark_attention.h"
#include "darkformer/ops/exact_attention.h"
#include "darkformer/ops/op_testing.h"

namespace darkformer::rivals::plain_attention_test {
namespace {

using at::Tensor;
using ops::Tensors;

struct Shape {
  std::int64_t B, H, G, T, D, F, R;
};

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {
      {1, 1, 1, 9, 4, 3, 4},       // fewer: gradients cancel, no relative bound fits
      {2, 4, 2, 30, 8, 5, 8},      // one chunk
      {1, 4, 1, 37, 16, 12, 10},   // a prime length, R < D
      {1, 2, 2, 384, 16, 24, 16},  // three chunks
      {2, 8, 1, 256, 32, 32, 32}};
  return all;
}

Tensors inputs(const Shape& s) {
  at::manual_seed(1);
  return {at::randn({s.B, s.H, s.T, s.D}), at::randn({s.B, s.G, s.T, s.D}),
          at::randn({s.B, s.G, s.T, s.D})};
}

ops::DarkOptions options_of(double scale, const ops::Optional<Tensor>& factor = {}) {
  ops::DarkOptions options;
  options.scale = scale;
  options.factor = factor;
  return options;
}

using Attention = std::function<Tensor(const Tensors&)>;

// Both in float32: each is within the bound of the truth, so they are within twice that of each
// other.
void expect_same(const Tensors& values,
                 const std::vector<std::string>& names,
                 std::int64_t terms,
                 const Attention& ours,
                 const Attention& theirs) {
  Tensors mine, other;
  for (const Tensor& value : values) {
    mine.push_back(value.clone().requires_grad_());
    other.push_back(value.clone().requires_grad_());
  }
  const Tensor got = theirs(other), want = ours(mine);
  ops::expect_close("output", got, want, 2 * terms);
  const Tensor cotangent = at::randn(want.sizes());
  const auto d_mine = torch::autograd::grad({want}, mine, {cotangent});
  const auto d_other = torch::autograd::grad({got}, other, {cotangent});
  for (std::size_t i = 0; i < names.size(); ++i) {
    ops::expect_close("d" + names[i], d_other[i], d_mine[i], 2 * terms);
  }
}

TEST(PlainAttention, SoftmaxEqualsOurs) {
  for (const Shape& s : shapes()) {
    SCOPED_TRACE(s.T);
    const double scale = 0.3;
    expect_same(
        inputs(s), {"q", "k", "v"}, s.T + s.D,
        [&](const Tensors& x) { return ops::exact_attention(x[0], x[1], x[2], {.scale = scale}); },
        [&](const Tensors& x) { return softmax_attention(x[0], x[1], x[2], scale); });
  }
}

TEST(PlainAttention, FeaturesEqualOurs) {
  for (const Shape& s : shapes()) {
    SCOPED_TRACE(s.T);
    const double scale = 1.0 / static_cast<double>(s.D);
    Tensors values = inputs(s);
    values.push_back(at::randn({s.G, s.F, s.R}));
    values.push_back(at::randn({s.G, s.R, s.D}) / std::sqrt(static_cast<double>(s.D)));
    expect_same(
        values, {"q", "k", "v", "draws", "factor"}, s.T + s.D + s.F,
        [&](const Tensors& x) {
          return ops::dark_attention(x[0], x[1], x[2], x[3], options_of(scale, x[4]));
        },
        [&](const Tensors& x) {
          return feature_attention(x[0], x[1], x[2], {x[3], x[4]}, scale);
        });
  }
}

TEST(PlainAttention, FeaturesWithoutAFactorEqualOurs) {
  const Shape s{2, 4, 2, 60, 8, 10, 8};
  Tensors values = inputs(s);
  values.push_back(at::randn({s.G, s.F, s.D}));
  for (const std::int64_t chunk : {1, 7, 60}) {
    expect_same(
        values, {"q", "k", "v", "draws"}, s.T + s.D + s.F,
        [&](const Tensors& x) {
          return ops::dark_attention(x[0], x[1], x[2], x[3], options_of(0.1));
        },
        [&](const Tensors& x) {
          return feature_attention(x[0], x[1], x[2], {x[3], {}}, 0.1, chunk);
        });
  }
}

}  // namespace
}  // namespace darkformer::rivals::plain_attention_test
