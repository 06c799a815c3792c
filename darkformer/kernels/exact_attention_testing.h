// Problems of exact attention with their results, references and error bounds, for its tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "darkformer/base/tolerance.h"
#include "darkformer/kernels/exact_attention.h"
#include "darkformer/kernels/exact_attention_shapes.h"
#include "darkformer/kernels/kernel_testing.h"

namespace darkformer::kernels {

using Values = std::vector<float>;
using Poisoned = PoisonedBuffer<float>;

// Contiguous inputs and incoming gradients of one problem.
struct Problem {
  ExactAttention a;
  Values q, k, v, d_o, d_lse;

  explicit Problem(const ExactAttention& shape, float spread = 1.0F) : a(shape) {
    q = random_values(a.B * a.H * a.T * a.D, 1, spread);
    k = random_values(a.B * a.G * a.S * a.D, 2);
    v = random_values(a.B * a.G * a.S * a.Dv, 3);
    d_o = random_values(a.B * a.H * a.T * a.Dv, 4);
    d_lse = random_values(a.B * a.H * a.T, 5);
  }
  AttentionInputs in() const {
    return {contiguous_heads(q.data(), a.H, a.T, a.D), contiguous_heads(k.data(), a.G, a.S, a.D),
            contiguous_heads(v.data(), a.G, a.S, a.Dv)};
  }
  HeadsView<const float> d_o_view() const { return contiguous_heads(d_o.data(), a.H, a.T, a.Dv); }
  HeadsView<const float> d_lse_view() const { return contiguous_heads(d_lse.data(), a.H, a.T, 1); }
};

struct Result {
  Poisoned o, lse, dq, dk, dv;
  explicit Result(const ExactAttention& a)
      : o(a.B * a.H * a.T * a.Dv),
        lse(a.B * a.H * a.T),
        dq(a.B * a.H * a.T * a.D),
        dk(a.B * a.G * a.S * a.D),
        dv(a.B * a.G * a.S * a.Dv) {}
};

inline Result run(const Problem& p, bool with_d_lse = true) {
  const ExactAttention& a = p.a;
  Result r(a);
  const auto o = contiguous_heads(r.o.data(), a.H, a.T, a.Dv);
  const auto lse = contiguous_heads(r.lse.data(), a.H, a.T, 1);
  exact_attention(a, p.in(), {o, lse});
  const auto saved_o = contiguous_heads<const float>(r.o.data(), a.H, a.T, a.Dv);
  const auto saved_lse = contiguous_heads<const float>(r.lse.data(), a.H, a.T, 1);
  exact_attention_backward(
      a, p.in(),
      {saved_o, saved_lse, p.d_o_view(), with_d_lse ? p.d_lse_view() : HeadsView<const float>{}},
      {contiguous_heads(r.dq.data(), a.H, a.T, a.D), contiguous_heads(r.dk.data(), a.G, a.S, a.D),
       contiguous_heads(r.dv.data(), a.G, a.S, a.Dv)});
  return r;
}

struct Reference {
  std::vector<double> o, lse, dq, dk, dv;
};

inline Reference reference(const Problem& p, bool with_d_lse = true) {
  const ExactAttention& a = p.a;
  Reference r{std::vector<double>(p.d_o.size()), std::vector<double>(p.d_lse.size()),
              std::vector<double>(p.q.size()), std::vector<double>(p.k.size()),
              std::vector<double>(p.v.size())};
  exact_attention_ref(
      a, p.in(),
      {contiguous_heads(r.o.data(), a.H, a.T, a.Dv), contiguous_heads(r.lse.data(), a.H, a.T, 1)});
  exact_attention_backward_ref(
      a, p.in(), p.d_o_view(), with_d_lse ? p.d_lse_view() : HeadsView<const float>{},
      {contiguous_heads(r.dq.data(), a.H, a.T, a.D), contiguous_heads(r.dk.data(), a.G, a.S, a.D),
       contiguous_heads(r.dv.data(), a.G, a.S, a.Dv)});
  return r;
}

inline double norm(const float* row, std::size_t D) {
  double sum = 0.0;
  for (std::size_t d = 0; d < D; ++d) {
    sum += static_cast<double>(row[d]) * row[d];
  }
  return std::sqrt(sum);
}

inline double dot(const float* x, const float* y, std::size_t D) {
  double sum = 0.0;
  for (std::size_t d = 0; d < D; ++d) {
    sum += static_cast<double>(x[d]) * y[d];
  }
  return sum;
}

// An error bound for every element, from the sizes of the terms it is made of; derived in
// docs/math_exact_attention.md.
class Bounds {
 public:
  std::vector<double> o, lse, dq, dk, dv;

  explicit Bounds(const Problem& p)
      : o(p.d_o.size()),
        lse(p.d_lse.size()),
        dq(p.q.size()),
        dk(p.k.size()),
        dv(p.v.size()),
        p_(p),
        a_(p.a) {
    for (std::size_t row = 0; row < a_.B * a_.H * a_.T; ++row) {
      add_query(row);
    }
  }

 private:
  // |delta s_ij|: the sum of D products of random sign, the roundings around it, tanh.
  double score_error(const float* q, const float* k) const {
    const double size = a_.scale * norm(q, a_.D) * norm(k, a_.D);
    return sum_bound(kEpsFloat, a_.D, size / std::sqrt(a_.D)) +
           4.0 * kEpsFloat * (size + a_.softcap);
  }

  void add_query(std::size_t row) {
    const std::size_t b = row / (a_.H * a_.T), h = row / a_.T % a_.H;
    const std::size_t keys = (b * a_.G + h / (a_.H / a_.G)) * a_.S;  // row of key 0
    const auto weights = exact_attention_row_ref(a_, p_.in(), b, h, row % a_.T);
    double mean = 0.0, mean_size = 0.0, score = 0.0;
    for (std::size_t j = 0; j < a_.S; ++j) {
      if (weights[j] > 0.0) {
        mean += weights[j] * dp(row, keys + j);
        mean_size += weights[j] * dp_size(row, keys + j);
        score = std::max(score, score_error(&p_.q[row * a_.D], &p_.k[(keys + j) * a_.D]));
      }
    }
    // Of log p: two scores, lse's rounding (it is at most the largest score + log S), the sum.
    const double log_p = 2.0 * score + 4.0 * kEpsFloat * std::log(2.0 + a_.S) + sum_error(a_.S);
    lse[row] = log_p;
    for (std::size_t j = 0; j < a_.S; ++j) {
      const double pull = std::abs(dp(row, keys + j) - mean + p_.d_lse[row]);
      const double pull_error =
          8.0 * kEpsFloat * (dp_size(row, keys + j) + mean_size + std::abs(p_.d_lse[row])) +
          2.0 * mean_size * log_p;
      const double slope = a_.softcap > 0.0F ? 2.0 * score / a_.softcap + 8.0 * kEpsFloat : 0.0;
      const double p_error = weights[j] * log_p + kFlushed;
      const double dx_error = weights[j] * (pull * (log_p + slope) + pull_error) + kFlushed * pull;
      add_pair(row, keys + j,
               {p_error, weights[j], dx_error + weights[j] * pull * sum_error(a_.S + rows())});
    }
  }

  // Of one pair: |delta p|, p, and |delta dx| with the rounding of the sums it enters.
  struct PairError {
    double p_error, p, dx_error;
  };
  void add_pair(std::size_t row, std::size_t key, PairError e) {
    for (std::size_t d = 0; d < a_.Dv; ++d) {
      o[row * a_.Dv + d] +=
          (2.0 * e.p_error + e.p * sum_error(a_.S)) * std::abs(p_.v[key * a_.Dv + d]);
      dv[key * a_.Dv + d] +=
          (e.p_error + e.p * sum_error(rows())) * std::abs(p_.d_o[row * a_.Dv + d]);
    }
    for (std::size_t d = 0; d < a_.D; ++d) {
      dq[row * a_.D + d] += a_.scale * e.dx_error * std::abs(p_.k[key * a_.D + d]);
      dk[key * a_.D + d] += a_.scale * e.dx_error * std::abs(p_.q[row * a_.D + d]);
    }
  }

  double dp(std::size_t row, std::size_t key) const {
    return dot(&p_.d_o[row * a_.Dv], &p_.v[key * a_.Dv], a_.Dv);
  }
  double dp_size(std::size_t row, std::size_t key) const {
    return norm(&p_.d_o[row * a_.Dv], a_.Dv) * norm(&p_.v[key * a_.Dv], a_.Dv);
  }
  std::size_t rows() const { return a_.T * a_.H / a_.G; }
  // Probabilities below the smallest normal float become 0.
  static constexpr double kFlushed = 2.0 * std::numeric_limits<float>::min();
  static double sum_error(std::size_t terms) { return sum_bound(kEpsFloat, terms, 1.0); }

  const Problem& p_;
  const ExactAttention& a_;
};

inline std::function<double(std::size_t)> each(const std::vector<double>& bounds) {
  return [&](std::size_t i) { return bounds[i]; };
}

inline void expect_all_near(const Result& got, const Reference& want, const Bounds& bounds) {
  expect_near("o", got.o, want.o, each(bounds.o));
  for (std::size_t i = 0; i < want.lse.size(); ++i) {
    if (std::isinf(want.lse[i])) {
      EXPECT_EQ(got.lse[i], want.lse[i]) << "lse of a query without keys, at " << i;
    } else {
      EXPECT_NEAR(got.lse[i], want.lse[i], bounds.lse[i]) << "lse at " << i;
    }
  }
  EXPECT_TRUE(got.lse.guards_intact());
  expect_near("dq", got.dq, want.dq, each(bounds.dq));
  expect_near("dk", got.dk, want.dk, each(bounds.dk));
  expect_near("dv", got.dv, want.dv, each(bounds.dv));
}

}  // namespace darkformer::kernels
