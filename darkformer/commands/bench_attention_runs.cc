// Calls of the kernels and of the rivals on the same values.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/bench_attention_runs.h"

#include <ATen/ATen.h>

#include <cmath>

#include "darkformer/base/error.h"
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

std::vector<float> AttentionRuns::features_forward() const {
  const DarkAttention& s = problem_.shape;
  std::vector<float> o(problem_.d_o.size());
  kernels::DarkCache cache;
  kernels::dark_attention(s, problem_.inputs(), kernels::contiguous_heads(o.data(), s.H, s.T, s.Dv),
                          cache, false);
  return o;
}

void AttentionRuns::features_both() const {
  const DarkAttention& s = problem_.shape;
  std::vector<float> o(problem_.d_o.size()), dq(problem_.q.size()), dk(problem_.k.size()),
      dv(problem_.v.size());
  kernels::DarkCache cache;
  kernels::dark_attention(s, problem_.inputs(), kernels::contiguous_heads(o.data(), s.H, s.T, s.Dv),
                          cache, true);
  kernels::DarkGradients gradients;
  gradients.dq = dq.data(), gradients.dk = dk.data(), gradients.dv = dv.data();
  kernels::dark_attention_backward(
      s, problem_.inputs(), kernels::contiguous_heads<const float>(o.data(), s.H, s.T, s.Dv),
      kernels::contiguous_heads(problem_.d_o.data(), s.H, s.T, s.Dv), cache, gradients);
}

kernels::ExactAttention AttentionRuns::exact_shape() const {
  const DarkAttention& s = problem_.shape;
  kernels::ExactAttention shape;
  shape.B = s.B, shape.H = s.H, shape.G = s.G, shape.T = s.T, shape.S = s.S, shape.D = s.D,
  shape.Dv = s.Dv, shape.scale = s.scale;
  return shape;
}

std::vector<float> AttentionRuns::exact_forward() const {
  const DarkAttention& s = problem_.shape;
  std::vector<float> o(problem_.d_o.size());
  const kernels::DarkInputs in = problem_.inputs();
  kernels::exact_attention(exact_shape(), {in.q, in.k, in.v},
                           {kernels::contiguous_heads(o.data(), s.H, s.T, s.Dv), {}});
  return o;
}

void AttentionRuns::exact_both() const {
  const DarkAttention& s = problem_.shape;
  std::vector<float> o(problem_.d_o.size()), lse(s.B * s.H * s.T), dq(problem_.q.size()),
      dk(problem_.k.size()), dv(problem_.v.size());
  const auto heads = [&](auto* values, std::size_t size) {
    return kernels::contiguous_heads(values, s.H, s.T, size);
  };
  const kernels::DarkInputs in = problem_.inputs();
  kernels::exact_attention(exact_shape(), {in.q, in.k, in.v},
                           {heads(o.data(), s.Dv), heads(lse.data(), 1)});
  const float *saved_o = o.data(), *saved_lse = lse.data();
  kernels::exact_attention_backward(
      exact_shape(), {in.q, in.k, in.v},
      {heads(saved_o, s.Dv), heads(saved_lse, 1), heads(problem_.d_o.data(), s.Dv), {}},
      {heads(dq.data(), s.D), heads(dk.data(), s.D), heads(dv.data(), s.Dv)});
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
  const std::vector<float> got = features_forward();
  for (std::size_t i = 0; i < want.size(); ++i) {
    require(std::abs(got[i] - want[i]) < kTolerance, "bench: feature attention gives ", got[i],
            " instead of ", want[i]);
  }
}

void AttentionRuns::check_against_rivals() const {
  std::vector<float> features = features_forward(), exact = exact_forward();
  expect_near("the rival's feature attention", rival_features_forward(),
              view(features, d_o_.sizes()));
  expect_near("the rival's softmax attention", rival_exact_forward(), view(exact, d_o_.sizes()));
}

std::int64_t AttentionRuns::bytes() const {
  return static_cast<std::int64_t>(sizeof(float) * (problem_.q.size() + problem_.k.size() +
                                                    problem_.v.size() + problem_.d_o.size()));
}

}  // namespace darkformer
