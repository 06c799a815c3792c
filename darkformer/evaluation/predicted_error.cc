// The double sum over keys of estimators/output_variance.h, for many queries at once.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/predicted_error.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "darkformer/estimators/output_variance.h"
#include "darkformer/model/matrix_tensors.h"
#include "darkformer/ops/linear.h"

namespace darkformer {
namespace {

using at::Tensor;
using estimators::FeatureFamily;

constexpr double kUnseenLogit = -std::numeric_limits<double>::infinity();

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

// sum over s, s' of b_s b_s' rho_ss' (v_s - o) . (v_s' - o) for rows of b (n,S): (n). In double:
// where one key has all the weight the terms cancel but for the last digits.
Tensor quadratic_form(const Tensor& b, const Tensor& rho, const Tensor& v, const Tensor& out) {
  const Tensor with_values = at::matmul(b, rho * at::matmul(v, v.t()));  // (n,S): b (rho v v^T)
  const Tensor with_keys = at::matmul(b, rho) * b;                       // (n,S)
  const Tensor second = (at::matmul(with_keys, v) * out).sum(-1);
  const Tensor third = out.square().sum(-1) * with_keys.sum(-1);
  return (with_values * b).sum(-1) - 2.0 * second + third;
}

// The typical estimate of each pair over its kernel, for each number of features (n,S) float32.
struct Typical {
  std::vector<Tensor> log_estimates, variances;
};

// log E x^beta of each pair (n,S), float32.
Tensor log_moments(const Axes& axes, const Tensor& u_q, const Tensor& u_k, double beta) {
  const Tensor left = beta - (beta - 1.0) / axes.scales;
  const double constant =
      (0.5 * (beta - 1.0) * axes.scales.log() - 0.5 * left.log()).sum().item<double>();
  const Tensor weight = 0.5 * (beta * beta / left - beta);
  const auto sizes = [&](const Tensor& u) { return (u.square() * weight).sum(-1).to(at::kFloat); };
  const Tensor products = ops::linear((2.0 * u_q * weight).to(at::kFloat).contiguous(),
                                      u_k.to(at::kFloat).contiguous());
  return products + (sizes(u_q) + constant).unsqueeze(1) + sizes(u_k);
}

Typical typical_estimates(const Axes& axes,
                          const Tensor& u_q,
                          const Tensor& u_k,
                          const std::vector<std::int64_t>& features) {
  const Tensor second = log_second_moments(axes, u_q, u_k).to(at::kFloat);
  Typical typical;
  for (const std::int64_t count : features) {
    typical.log_estimates.push_back(at::zeros_like(second));
    typical.variances.push_back(at::exp((second - std::log(count)).clamp_max(0.0)));
  }
  for (int step = 1; step < estimators::kTypicalSteps; ++step) {
    const double beta = estimators::typical_beta(step);
    const Tensor moments = log_moments(axes, u_q, u_k, beta) / beta;
    const double variance = estimators::kStableVariance * (1.0 / (beta * beta) - 1.0);
    for (std::size_t f = 0; f < features.size(); ++f) {
      const Tensor bound = moments + std::log(features[f]) * (1.0 / beta - 1.0);
      const Tensor lower = bound.lt(typical.log_estimates[f]);
      typical.variances[f].masked_fill_(lower, variance);
      typical.log_estimates[f] = at::minimum(typical.log_estimates[f], bound);
    }
  }
  return typical;
}

}  // namespace

Tensor PredictedRows::error2_of_many(double features) const {
  const Tensor precision = at::exp(std::log(features) - log_variance);  // F / variance
  return bias2 + at::where(ignorance.gt(0.0), 1.0 / (precision + 1.0 / ignorance),
                           at::zeros_like(ignorance));
}

PredictedRows predict_rows(const AttentionRows& rows,
                           const FeatureFamily& family,
                           const std::vector<std::int64_t>& features) {
  const Axes axes(family);
  const Tensor unseen = rows.seen.logical_not();
  // Values about their mean: the form below is a difference of large numbers otherwise.
  const Tensor middle = rows.v.mean(0), v = rows.v - middle, exact = rows.out - middle;
  const Tensor u_q = axes.queries(rows.q), u_k = axes.keys(rows.k);
  const Tensor scores =
      (at::matmul(u_q, u_k.t()) + at::matmul(u_k, axes.center())).masked_fill(unseen, kUnseenLogit);
  const Tensor log_weights = at::log_softmax(scores, -1);  // (n,S)
  const Tensor out = at::matmul(log_weights.exp(), v);     // (n,Dv)
  const Tensor log_sizes = log_weights + 0.5 * log_second_moments(axes, u_q, u_k);
  const Tensor most = at::amax(log_sizes, {-1}, true);  // (n,1)
  const Tensor correlations = key_correlations(axes, u_k);
  const Tensor form =
      quadratic_form(at::exp(log_sizes - most), correlations.to(at::kDouble), v, out);
  const Tensor count = rows.seen.sum(-1, true).to(at::kDouble);
  const Tensor mean = at::matmul(rows.seen.to(at::kDouble), v) / count;  // (n,Dv)

  PredictedRows predicted;
  predicted.bias2 = (out - exact).square().sum(-1);
  predicted.log_variance = 2.0 * most.squeeze(-1) + form.clamp_min(0.0).log();
  predicted.ignorance = (mean - out).square().sum(-1);
  const Typical typical = typical_estimates(axes, u_q, u_k, features);
  for (std::size_t f = 0; f < features.size(); ++f) {
    const Tensor p = at::softmax(scores + typical.log_estimates[f], -1);  // (n,S)
    const Tensor typical_out = at::matmul(p, v);                          // (n,Dv)
    const Tensor spread =
        (at::matmul(p, v.square().sum(-1)) - typical_out.square().sum(-1)).clamp_min(0.0);
    const Tensor deviations = (p.to(at::kFloat) * typical.variances[f].sqrt()).contiguous();
    const Tensor c = (ops::linear(deviations, correlations) * deviations).to(at::kDouble).sum(-1);
    const Tensor first_order = at::exp(predicted.log_variance - std::log(features[f]));
    predicted.error2.push_back((typical_out - exact).square().sum(-1) +
                               at::minimum(first_order, spread * c / (1.0 + c)));
  }
  return predicted;
}

}  // namespace darkformer
