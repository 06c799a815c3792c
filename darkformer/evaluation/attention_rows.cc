// Sampled queries, their softmax, and sums over parts of it.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/attention_rows.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace darkformer {
namespace {

using at::Tensor;

constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

// The last of each of `count` equal parts of [0, T), each position once.
Tensor spread_positions(std::int64_t T, std::int64_t count) {
  const std::int64_t n = std::min(T, count);
  return at::arange(1, n + 1, at::kLong).mul(T).floor_divide(n).sub(1);
}

// scores <- soft cap of them, -inf where a key is not seen; softmax
Tensor softmax_of(Tensor scores, const Tensor& seen, double softcap) {
  if (softcap > 0.0) {
    scores = softcap * at::tanh(scores / softcap);
  }
  return at::softmax(
      scores.masked_fill(seen.logical_not(), -std::numeric_limits<double>::infinity()), -1);
}

// The mean over the chosen rows of each head of the sum of weights where mask: heads values.
std::vector<double> masses(const AttentionRows& rows, const Tensor& chosen, const Tensor& mask) {
  const Tensor sums = (rows.weights * mask).sum(-1) * chosen;  // (n)
  const Tensor mass = sums.reshape({rows.heads, -1}).sum(-1) /
                      chosen.to(at::kDouble).reshape({rows.heads, -1}).sum(-1);  // (heads)
  std::vector<double> values(static_cast<std::size_t>(rows.heads));
  for (std::int64_t h = 0; h < rows.heads; ++h) {
    values[static_cast<std::size_t>(h)] = mass[h].item<double>();
  }
  return values;
}

}  // namespace

AttentionRows attention_rows(const MixerCall& call,
                             const MixerShape& shape,
                             std::int64_t kv_head,
                             std::int64_t queries) {
  const std::int64_t T = std::min(call.q.size(2), kLongestSample);
  const std::int64_t heads = shape.heads / shape.kv_heads;
  const double root = std::sqrt(shape.scale);
  AttentionRows rows;
  rows.heads = heads;
  const Tensor positions = spread_positions(T, queries);
  rows.positions = positions.repeat({heads});
  rows.q = root * call.q[0]
                      .slice(0, kv_head * heads, (kv_head + 1) * heads)
                      .index_select(1, positions)
                      .flatten(0, 1)
                      .to(at::kDouble);                                          // (n,D)
  rows.k = root * call.k[0][kv_head].slice(0, 0, T).to(at::kDouble);             // (S,D)
  rows.v = call.v[0][kv_head].slice(0, 0, T).to(at::kDouble);                    // (S,Dv)
  const Tensor behind = rows.positions.unsqueeze(1) - at::arange(T, at::kLong);  // (n,S)
  rows.seen = behind.ge(0);
  const Tensor visible =
      shape.window > 0 ? rows.seen.logical_and(behind.lt(shape.window)) : rows.seen;
  rows.weights = softmax_of(at::matmul(rows.q, rows.k.t()), visible, shape.softcap);  // (n,S)
  rows.out = at::matmul(rows.weights, rows.v);                                        // (n,Dv)
  return rows;
}

AttentionReach attention_reach(const AttentionRows& rows,
                               const std::vector<std::int64_t>& windows,
                               const std::vector<std::int64_t>& sinks) {
  const std::int64_t S = rows.k.size(0), half = S / 2;
  const Tensor chosen = rows.positions.ge(half);
  const Tensor keys = at::arange(S, at::kLong);
  const Tensor behind = rows.positions.unsqueeze(1) - keys;  // (n,S)
  AttentionReach reach{std::vector<std::vector<double>>(static_cast<std::size_t>(rows.heads)),
                       std::vector<std::vector<double>>(static_cast<std::size_t>(rows.heads))};
  const auto add = [&](std::vector<std::vector<double>>& to, bool measured, const Tensor& mask) {
    const std::vector<double> mass =
        measured ? masses(rows, chosen, mask)
                 : std::vector<double>(static_cast<std::size_t>(rows.heads), kNoValue);
    for (std::size_t h = 0; h < mass.size(); ++h) {
      to[h].push_back(mass[h]);
    }
  };
  for (const std::int64_t window : windows) {
    add(reach.windows, S >= 2 * window, behind.lt(window).logical_and(behind.ge(0)));
  }
  for (const std::int64_t count : sinks) {
    add(reach.sinks, half >= count, keys.lt(count).unsqueeze(0).expand_as(behind));
  }
  return reach;
}

AttentionReach mean_reach(const std::vector<AttentionReach>& parts, std::int64_t kv_heads) {
  const auto G = static_cast<std::size_t>(kv_heads), windows = parts.size() / G;
  AttentionReach mean;
  const auto add = [&](std::vector<double>& to, const std::vector<double>& values) {
    to.resize(values.size(), 0.0);
    for (std::size_t i = 0; i < values.size(); ++i) {
      to[i] += values[i] / static_cast<double>(windows);
    }
  };
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const std::size_t heads = parts[part].windows.size(), first = part % G * heads;
    mean.windows.resize(G * heads);
    mean.sinks.resize(G * heads);
    for (std::size_t h = 0; h < heads; ++h) {
      add(mean.windows[first + h], parts[part].windows[h]);
      add(mean.sinks[first + h], parts[part].sinks[h]);
    }
  }
  return mean;
}

Tensor attended_keys(const AttentionRows& rows, const Tensor& uniform) {
  // The first key at which the sum of weights passes the number; rounding may leave it below 1.
  const Tensor passed = rows.weights.cumsum(-1).gt(uniform.unsqueeze(1));  // (n,S)
  const Tensor first = passed.to(at::kLong).argmax(-1);                    // (n)
  return at::where(passed.any(-1), first, rows.positions);
}

}  // namespace darkformer
