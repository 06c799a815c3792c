// Cross-entropy and its gradients by their formulas, a row at a time, in double.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include "darkformer/kernels/convert.h"
#include "darkformer/kernels/cross_entropy.h"

namespace darkformer::kernels {
namespace {

using Problem = CrossEntropyProblem;

double weight_at(const Problem& p, std::size_t v, std::size_t e) {
  return stored_value(p.weight.row(v), p.weight.type, e);
}

std::vector<double> logits_of_row(const Problem& p, std::size_t n) {
  std::vector<double> logits(p.weight.rows, 0.0);
  for (std::size_t v = 0; v < logits.size(); ++v) {
    for (std::size_t e = 0; e < p.weight.cols; ++e) {
      logits[v] += p.hidden[n * p.weight.cols + e] * weight_at(p, v, e);
    }
    if (p.softcap > 0.0F) {
      logits[v] = p.softcap * std::tanh(logits[v] / p.softcap);
    }
  }
  return logits;
}

double log_sum_exp(const std::vector<double>& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const double logit : logits) {
    sum += std::exp(logit - largest);
  }
  return largest + std::log(sum);
}

// dhidden[n] and dweight get the share of logit v of row n.
void add_gradient(const Problem& p,
                  std::size_t n,
                  std::size_t v,
                  double dlogit,
                  const CrossEntropyReference& result) {
  const std::size_t E = p.weight.cols;
  for (std::size_t e = 0; e < E; ++e) {
    result.dhidden[n * E + e] += dlogit * weight_at(p, v, e);
    result.dweight[v * E + e] += dlogit * p.hidden[n * E + e];
  }
}

}  // namespace

void cross_entropy_ref(const Problem& p, const float* dloss, const CrossEntropyReference& result) {
  const std::size_t E = p.weight.cols, V = p.weight.rows;
  std::fill(result.dhidden, result.dhidden + p.rows * E, 0.0);
  std::fill(result.dweight, result.dweight + V * E, 0.0);
  for (std::size_t n = 0; n < p.rows; ++n) {
    const std::vector<double> logits = logits_of_row(p, n);
    result.lse[n] = log_sum_exp(logits);
    result.loss[n] = 0.0;
    result.correct[n] = 0;
    if (p.targets[n] < 0) {
      continue;
    }
    const auto target = static_cast<std::size_t>(p.targets[n]);
    result.loss[n] = result.lse[n] - logits[target];
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    result.correct[n] = static_cast<std::size_t>(best) == target ? 1 : 0;
    for (std::size_t v = 0; v < V; ++v) {
      const double capped = p.softcap > 0.0F ? logits[v] / p.softcap : 0.0;
      const double error = std::exp(logits[v] - result.lse[n]) - (v == target ? 1.0 : 0.0);
      add_gradient(p, n, v, dloss[n] * error * (1.0 - capped * capped), result);
    }
  }
}

}  // namespace darkformer::kernels
