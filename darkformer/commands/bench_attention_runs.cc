// Calls of the kernels and of the rivals on the same values.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/bench_attention_runs.h"

#include <ATen/ATen.h>

#include <cmath>

#include "darkformer/base/error.h"
#include "darkformer/ops/fresh_tensor.h"
#include "darkformer/rivals/plain_attention.h"

namespace darkformer {
namespace {

using at::Tensor;
using kernels::DarkAttention;

// Attention of normal values is of order one: a wrong kernel is off by far more than this.
constexpr double kTolerance = 1e-3;

Tensor view(std::vector<float>& values, at::IntArrayRef sizes) {
  return at::from_blob(values.data(), sizes, at::kFloat);
}

// (1,H,T,size), contiguous.
template <class Value>
kernels::HeadsView<Value> heads_of(const Tensor& x) {
  Value* values = x.data_ptr<float>();
  return kernels::contiguous_heads(values, static_cast<std::size_t>(x.size(1)),
                                   static_cast<std::size_t>(x.size(2)),
                                   static_cast<std::size_t>(x.size(3)));
}

void expect_near(const char* what, const Tensor& got, const Tensor& want) {
  const double error = (got - want).abs().max().item<double>();
  require(error < kTolerance, "bench: ", what, " is off by ", error);  // false for NaN
}

}  // namespace

AttentionRuns::AttentionRuns(std::int64_t heads,
                             std::int64_t length,
                             std::int64_t size,
                             std::int64_t features)
    : problem_(kernels::read_problem(
          concat("B1 H", heads, " G", heads, " T", length, " D", size, " F", features))) {
  q_ = view(problem_.q, {1, heads, length, size});
  k_ = view(problem_.k, {1, heads, length, size});
  v_ = view(problem_.v, {1, heads, length, size});
  d_o_ = view(problem_.d_o, {1, heads, length, size});
  draws_ = view(problem_.draws, {heads, features, size});
}

Tensor AttentionRuns::features_forward() const {
  const DarkAttention& s = problem_.shape;
  Tensor o = ops::fresh_tensor_like(d_o_);
  kernels::DarkCache cache;
  kernels::dark_attention(s, problem_.inputs(), heads_of<float>(o), cache, false);
  return o;
}

void AttentionRuns::features_both() const {
  const DarkAttention& s = problem_.shape;
  const Tensor o = ops::fresh_tensor_like(d_o_), dq = ops::fresh_tensor_like(q_),
               dk = ops::fresh_tensor_like(k_), dv = ops::fresh_tensor_like(v_);
  kernels::DarkCache cache;
  kernels::dark_attention(s, problem_.inputs(), heads_of<float>(o), cache, true);
  kernels::DarkGradients gradients;
  gradients.dq = dq.data_ptr<float>(), gradients.dk = dk.data_ptr<float>(),
  gradients.dv = dv.data_ptr<float>();
  kernels::dark_attention_backward(s, problem_.inputs(), heads_of<const float>(o),
                                   heads_of<const float>(d_o_), cache, gradients);
}

kernels::ExactAttention AttentionRuns::exact_shape() const {
  const DarkAttention& s = problem_.shape;
  kernels::ExactAttention shape;
  shape.B = s.B, shape.H = s.H, shape.G = s.G, shape.T = s.T, shape.S = s.S, shape.D = s.D,
  shape.Dv = s.Dv, shape.scale = s.scale;
  return shape;
}

Tensor AttentionRuns::exact_forward() const {
  Tensor o = ops::fresh_tensor_like(d_o_);
  const kernels::DarkInputs in = problem_.inputs();
  kernels::exact_attention(exact_shape(), {in.q, in.k, in.v}, {heads_of<float>(o), {}});
  return o;
}

void AttentionRuns::exact_both() const {
  const Tensor o = ops::fresh_tensor_like(d_o_), dq = ops::fresh_tensor_like(q_),
               dk = ops::fresh_tensor_like(k_), dv = ops::fresh_tensor_like(v_);
  const Tensor lse = at::empty({q_.size(0), q_.size(1), q_.size(2), 1}, q_.options());
  const kernels::DarkInputs in = problem_.inputs();
  kernels::exact_attention(exact_shape(), {in.q, in.k, in.v},
                           {heads_of<float>(o), heads_of<float>(lse)});
  kernels::exact_attention_backward(
      exact_shape(), {in.q, in.k, in.v},
      {heads_of<const float>(o), heads_of<const float>(lse), heads_of<const float>(d_o_), {}},
      {heads_of<float>(dq), heads_of<float>(dk), heads_of<float>(dv)});
}

std::vector<Tensor> AttentionRuns::leaves() const {
  return {q_.detach().requires_grad_(), k_.detach().requires_grad_(), v_.detach().requires_grad_()};
}

void AttentionRuns::rival_backward(const Tensor& out) const {
  out.backward(d_o_);
}

Tensor AttentionRuns::rival_features_forward() const {
  const at::NoGradGuard no_gradients;
  return rivals::feature_attention(q_, k_, v_, {draws_, {}}, problem_.shape.scale);
}

void AttentionRuns::rival_features_both() const {
  const std::vector<Tensor> x = leaves();
  rival_backward(rivals::feature_attention(x[0], x[1], x[2], {draws_, {}}, problem_.shape.scale));
}

Tensor AttentionRuns::rival_exact_forward() const {
  const at::NoGradGuard no_gradients;
  return rivals::softmax_attention(q_, k_, v_, problem_.shape.scale);
}

void AttentionRuns::rival_exact_both() const {
  const std::vector<Tensor> x = leaves();
  rival_backward(rivals::softmax_attention(x[0], x[1], x[2], problem_.shape.scale));
}

void AttentionRuns::check_against_reference() const {
  const std::vector<double> want =
      kernels::dark_attention_ref(problem_.shape, problem_.inputs(), nullptr).o;
  const Tensor truth =
      at::from_blob(const_cast<double*>(want.data()), d_o_.sizes(), at::kDouble).to(at::kFloat);
  expect_near("feature attention", features_forward(), truth);
}

void AttentionRuns::check_against_rivals() const {
  expect_near("the rival's feature attention", rival_features_forward(), features_forward());
  expect_near("the rival's softmax attention", rival_exact_forward(), exact_forward());
}

std::int64_t AttentionRuns::bytes() const {
  return static_cast<std::int64_t>(sizeof(float) * (problem_.q.size() + problem_.k.size() +
                                                    problem_.v.size() + problem_.d_o.size()));
}

}  // namespace darkformer
