// The double sum over keys of estimators/output_variance.h, for many queries at once.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/predicted_error.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "darkformer/model/matrix_tensors.h"
#include "darkformer/ops/linear.h"

namespace darkformer {
namespace {

using at::Tensor;
using estimators::FeatureFamily;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A family's maps along the axes of its proposal, where its formulas are sums over axes.
struct Axes {
  explicit Axes(const FeatureFamily& family)
      : basis(tensor_of(family.proposal.vectors)),
        scales(tensor_of(family.proposal.values)),
        query(at::matmul(basis, tensor_of(family.query_map))),
        key(at::matmul(basis, tensor_of(family.key_map))),
        query_center(tensor_of(family.query_center)),
        key_center(tensor_of(family.key_center)) {}

  Tensor queries(const Tensor& q) const { return at::matmul(q - query_center, query.t()); }
  Tensor keys(const Tensor& k) const { return at::matmul(k - key_center, key.t()); }
  Tensor center() const { return at::matmul(query, query_center); }  // m

  Tensor basis, scales, query, key, query_center, key_center;
};

// log E x^2 of one draw for each pair (n,S): c + sum over l of (u_q + u_k)_l^2 / (2 s_l - 1)
Tensor log_second_moments(const Axes& axes, const Tensor& u_q, const Tensor& u_k) {
  const Tensor left = 2.0 * axes.scales - 1.0, weight = 1.0 / left;
  const Tensor constant = (axes.scales.log() - 0.5 * left.log()).sum();
  return constant + (u_q.square() * weight).sum(-1, true) + (u_k.square() * weight).sum(-1) +
         2.0 * at::matmul(u_q * weight, u_k.t());
}

// exp(-|u_s - u_s'|^2_K / 2) for all pairs of keys (S,S), K = s / (2 s - 1) along the axes.
Tensor key_correlations(const Axes& axes, const Tensor& u_k) {
  const Tensor scaled = u_k * (axes.scales / (2.0 * axes.scales - 1.0)).sqrt();
  const Tensor size = scaled.square().sum(-1);
  const Tensor rows = scaled.to(at::kFloat).contiguous();
  const Tensor distance =
      size.to(at::kFloat).unsqueeze(1) + size.to(at::kFloat) - 2.0 * ops::linear(rows, rows);
  return at::exp(-0.5 * distance.clamp_min(0.0));
}

// sum over s, s' of b_s b_s' rho_ss' (v_s - o) . (v_s' - o) for each row of b (n,S): (n)
Tensor quadratic_form(const Tensor& b, const Tensor& rho, const Tensor& v, const Tensor& out) {
  const Tensor values = v.to(at::kFloat).contiguous(), weights = b.to(at::kFloat).contiguous();
  const Tensor alike = rho * ops::linear(values, values);               // (S,S)
  const Tensor with_values = ops::linear(weights, alike);               // (n,S): b (rho v v^T)
  const Tensor with_keys = (ops::linear(weights, rho) * weights).to(at::kDouble);  // (n,S)
  const Tensor first = (with_values * weights).to(at::kDouble).sum(-1);
  const Tensor second = (at::matmul(with_keys, v) * out).sum(-1);
  const Tensor third = out.square().sum(-1) * with_keys.sum(-1);
  return first - 2.0 * second + third;
}

}  // namespace

Tensor PredictedRows::error2(double features) const {
  const Tensor variance = at::exp(std::log(features) - log_variance);  // F / variance
  return bias2 + at::where(ignorance.gt(0.0), 1.0 / (variance + 1.0 / ignorance),
                           at::zeros_like(ignorance));
}

PredictedRows predict_rows(const AttentionRows& rows, const FeatureFamily& family) {
  const Axes axes(family);
  const Tensor unseen = rows.seen.logical_not();
  // Values about their mean: the form below is a difference of large numbers otherwise.
  const Tensor middle = rows.v.mean(0), v = rows.v - middle;
  const Tensor u_q = axes.queries(rows.q), u_k = axes.keys(rows.k);
  const Tensor scores =
      (at::matmul(u_q, u_k.t()) + at::matmul(u_k, axes.center())).masked_fill(unseen, -kInfinity);
  const Tensor log_weights = at::log_softmax(scores, -1);                        // (n,S)
  const Tensor out = at::matmul(log_weights.exp(), v);                           // (n,Dv)
  const Tensor log_sizes = log_weights + 0.5 * log_second_moments(axes, u_q, u_k);
  const Tensor most = at::amax(log_sizes, {-1}, true);                           // (n,1)
  const Tensor form =
      quadratic_form(at::exp(log_sizes - most), key_correlations(axes, u_k), v, out);
  const Tensor count = rows.seen.sum(-1, true).to(at::kDouble);
  const Tensor mean = at::matmul(rows.seen.to(at::kDouble), v) / count;          // (n,Dv)
  const Tensor exact = rows.out - middle;
  return {(out - exact).square().sum(-1), 2.0 * most.squeeze(-1) + form.clamp_min(0.0).log(),
          (mean - out).square().sum(-1)};
}

}  // namespace darkformer
