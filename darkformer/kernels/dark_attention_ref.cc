// The truth of dark attention: every weight of every pair in double, logarithms throughout,
// gradients by the chain rule.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "darkformer/kernels/dark_attention.h"
#include "darkformer/kernels/softmax_features_ref.h"

namespace darkformer::kernels {
namespace {

using Vector = std::vector<double>;

double dot(const double* x, const double* y, std::size_t count) {
  double sum = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    sum += x[i] * y[i];
  }
  return sum;
}

double log_sum_exp(const Vector& x) {
  double top = -std::numeric_limits<double>::infinity();
  for (const double value : x) {
    top = std::max(top, value);
  }
  if (std::isinf(top)) {
    return top;
  }
  double sum = 0.0;
  for (const double value : x) {
    sum += std::exp(value - top);
  }
  return top + std::log(sum);
}

// A parameter in double, and its gradient beside it.
struct Parameter {
  Parameter(const float* from, std::size_t count)
      : value(count, 0.0), gradient(count, 0.0), present(from != nullptr) {
    if (present) {
      value.assign(from, from + count);
    }
  }
  Vector value, gradient;
  bool present;
};

// One head of one batch against the keys of its group. All of it in the order of the header's
// formulas.
class Reference {
 public:
  Reference(const DarkAttention& shape, const DarkInputs& inputs)
      : s(shape),
        in(inputs),
        root(std::sqrt(static_cast<double>(s.scale))),
        draws(in.parameters.draws, s.N * s.F * s.R),
        factor(in.parameters.factor, s.N * s.R * s.D),
        key_factor(in.parameters.key_factor, s.N * s.R * s.D),
        log_weights(in.parameters.log_weights, s.N * s.F),
        query_center(in.parameters.query_center, s.N * s.D),
        key_center(in.parameters.key_center, s.G * s.D),
        gate(in.parameters.gate, in.parameters.gate_per_token ? s.B * s.H * s.T * 2 : s.H * 2) {
    o.assign(s.B * s.H * s.T * s.Dv, 0.0);
    dq.assign(s.B * s.H * s.T * s.D, 0.0);
    dk.assign(s.B * s.G * s.S * s.D, 0.0);
    dv.assign(s.B * s.G * s.S * s.Dv, 0.0);
  }

  void run(std::size_t batch, std::size_t head, const float* d_o) {
    b = batch;
    h = head;
    n = h * s.N / s.H;
    g = h * s.G / s.H;
    map_keys();
    for (std::size_t t = 0; t < s.T; ++t) {
      row(t, d_o == nullptr ? nullptr : d_o + ((b * s.H + h) * s.T + t) * s.Dv);
    }
    if (d_o != nullptr) {
      keys_backward();
    }
  }

  const DarkAttention& s;
  const DarkInputs& in;
  double root;
  Parameter draws, factor, key_factor, log_weights, query_center, key_center, gate;
  Vector o, dq, dk, dv;

 private:
  // Which fields of query t hold a key.
  struct Fields {
    bool near, far;
  };

  Fields fields(std::size_t t, std::size_t key) const {
    const auto p = static_cast<std::ptrdiff_t>(t + s.S) - static_cast<std::ptrdiff_t>(s.T);
    const auto j = static_cast<std::ptrdiff_t>(key);
    if (s.causal && j > p) {
      return {false, false};
    }
    const bool near = key < s.sinks || (s.causal && j > p - static_cast<std::ptrdiff_t>(s.window));
    return {near, s.far_all || !near};
  }

  Parameter& key_map() { return key_factor.present ? key_factor : factor; }

  // y <- root M x, or root x without a map
  Vector map(const Parameter& m, const Vector& x) const {
    Vector y(s.R, 0.0);
    for (std::size_t r = 0; r < s.R; ++r) {
      y[r] = root * (m.present ? dot(&m.value[(n * s.R + r) * s.D], x.data(), s.D) : x[r]);
    }
    return y;
  }

  // dx <- root M^T dy, dM += root dy x^T
  Vector map_backward(Parameter& m, const Vector& x, const Vector& dy) const {
    Vector dx(s.D, 0.0);
    for (std::size_t r = 0; r < s.R; ++r) {
      if (!m.present) {
        dx[r] += root * dy[r];
        continue;
      }
      for (std::size_t d = 0; d < s.D; ++d) {
        dx[d] += root * m.value[(n * s.R + r) * s.D + d] * dy[r];
        m.gradient[(n * s.R + r) * s.D + d] += root * dy[r] * x[d];
      }
    }
    return dx;
  }

  Vector centred(HeadsView<const float> x,
                 std::size_t head,
                 std::size_t t,
                 const Parameter& center,
                 std::size_t which) const {
    Vector y(s.D);
    for (std::size_t d = 0; d < s.D; ++d) {
      y[d] = static_cast<double>(x.row(b, head, t)[static_cast<std::ptrdiff_t>(d) * x.element]) -
             center.value[which * s.D + d];
    }
    return y;
  }

  void map_keys() {
    center_map =
        map(factor, Vector(&query_center.value[n * s.D], &query_center.value[n * s.D] + s.D));
    d_center_map.assign(s.R, 0.0);
    u_k.assign(s.S, {});
    du_k.assign(s.S, Vector(s.R, 0.0));
    log_phi_k.assign(s.S, Vector(s.F));
    d_log_phi_k.assign(s.S, Vector(s.F, 0.0));
    for (std::size_t j = 0; j < s.S; ++j) {
      if (s.softmax_features) {
        log_phi_k[j] = softmax_logs_ref(&key_factor.value[n * s.R * s.D], s.R,
                                        centred(in.k, g, j, key_center, g));
        continue;
      }
      u_k[j] = map(key_map(), centred(in.k, g, j, key_center, g));
      const double shift =
          dot(center_map.data(), u_k[j].data(), s.R) - 0.5 * dot(u_k[j].data(), u_k[j].data(), s.R);
      for (std::size_t f = 0; f < s.F; ++f) {
        log_phi_k[j][f] = dot(&draws.value[(n * s.F + f) * s.R], u_k[j].data(), s.R) + shift +
                          0.5 * log_weights.value[n * s.F + f];
      }
    }
  }

  // Logits of both fields, their softmaxes, the gate, and, with d_o, the way back.
  void row(std::size_t t, const float* d_o) {
    const Vector x = centred(in.q, h, t, query_center, n);
    const Vector u_q = map(factor, x);
    const Vector log_phi_q = s.softmax_features
                                 ? softmax_logs_ref(&factor.value[n * s.R * s.D], s.R, x)
                                 : query_logs(u_q);
    const double minus_infinity = -std::numeric_limits<double>::infinity();
    Vector near(s.S, minus_infinity), far(s.S, minus_infinity);
    Vector full = u_q;
    for (std::size_t r = 0; r < s.R; ++r) {
      full[r] += center_map[r];
    }
    for (std::size_t j = 0; j < s.S; ++j) {
      if (fields(t, j).near) {
        near[j] = by_model() ? model_logit(t, j) : dot(full.data(), u_k[j].data(), s.R);
      }
      if (fields(t, j).far) {
        far[j] = pair_logit(log_phi_q, log_phi_k[j]);
      }
    }
    const double log_near = log_sum_exp(near), log_far = log_sum_exp(far);
    const std::size_t at = (b * s.H + h) * s.T + t;
    const double* gates = gate_of(t);
    const double share = gate_share(gates, log_near, log_far);
    Vector o_near = weighted_values(near, log_near), o_far = weighted_values(far, log_far);
    for (std::size_t d = 0; d < s.Dv; ++d) {
      o[at * s.Dv + d] = share * o_near[d] + (1.0 - share) * o_far[d];
    }
    if (d_o != nullptr) {
      Way way{t, x, u_q, full, log_phi_q, near, far, o_near, o_far, log_near, log_far, share};
      row_backward(way, d_o);
    }
  }

  Vector query_logs(const Vector& u_q) const {
    Vector logs(s.F);
    for (std::size_t f = 0; f < s.F; ++f) {
      logs[f] = dot(&draws.value[(n * s.F + f) * s.R], u_q.data(), s.R) -
                0.5 * dot(u_q.data(), u_q.data(), s.R) + 0.5 * log_weights.value[n * s.F + f];
    }
    return logs;
  }

  // Are near keys weighted by the model's own kernel?
  bool by_model() const { return s.model_near || s.softmax_features; }

  // scale q . (k - b)
  double model_logit(std::size_t t, std::size_t j) const {
    const Vector key = centred(in.k, g, j, key_center, g);
    double sum = 0.0;
    for (std::size_t d = 0; d < s.D; ++d) {
      sum += s.scale * query(t, d) * key[d];
    }
    return sum;
  }

  struct Way {
    std::size_t t;
    const Vector &x, &u_q, &full, &log_phi_q, &near, &far, &o_near, &o_far;
    double log_near, log_far, share;
  };

  double pair_logit(const Vector& log_q, const Vector& log_k) const {
    Vector sum(s.F);
    for (std::size_t f = 0; f < s.F; ++f) {
      sum[f] = log_q[f] + log_k[f];
    }
    return log_sum_exp(sum) - log_count();
  }

  // Random features are averaged, learned ones added.
  double log_count() const { return s.softmax_features ? 0.0 : std::log(static_cast<double>(s.F)); }

  const double* gate_of(std::size_t t) const {
    static constexpr double kCommonNormaliser[2] = {1.0, 0.0};
    if (!gate.present) {
      return kCommonNormaliser;
    }
    return &gate.value[in.parameters.gate_per_token ? ((b * s.H + h) * s.T + t) * 2 : h * 2];
  }

  double gate_share(const double* gates, double log_near, double log_far) const {
    if (std::isinf(log_near)) {
      return 0.0;
    }
    if (std::isinf(log_far)) {
      return 1.0;
    }
    return 1.0 / (1.0 + std::exp(-(gates[0] * (log_near - log_far) + gates[1])));
  }

  double query(std::size_t t, std::size_t d) const {
    return in.q.row(b, h, t)[static_cast<std::ptrdiff_t>(d) * in.q.element];
  }

  double value(std::size_t j, std::size_t d) const {
    return in.v.row(b, g, j)[static_cast<std::ptrdiff_t>(d) * in.v.element];
  }

  Vector weighted_values(const Vector& logits, double log_sum) const {
    Vector y(s.Dv, 0.0);
    for (std::size_t j = 0; j < s.S; ++j) {
      const double weight = std::isinf(logits[j]) ? 0.0 : std::exp(logits[j] - log_sum);
      for (std::size_t d = 0; d < s.Dv; ++d) {
        y[d] += weight * value(j, d);
      }
    }
    return y;
  }

  void row_backward(const Way& way, const float* d_o) {
    // o = share o_near + (1 - share) o_far
    double d_share = 0.0;
    Vector d_near(s.Dv), d_far(s.Dv);
    for (std::size_t d = 0; d < s.Dv; ++d) {
      d_share += d_o[d] * (way.o_near[d] - way.o_far[d]);
      d_near[d] = way.share * d_o[d];
      d_far[d] = (1.0 - way.share) * d_o[d];
    }
    double d_log_near = 0.0, d_log_far = 0.0;
    if (!std::isinf(way.log_near) && !std::isinf(way.log_far)) {
      const double* gates = gate_of(way.t);
      const double d_argument = d_share * way.share * (1.0 - way.share);
      d_log_near = d_argument * gates[0];
      d_log_far = -d_argument * gates[0];
      if (gate.present) {
        double* to = &gate.gradient[static_cast<std::size_t>(gates - gate.value.data())];
        to[0] += d_argument * (way.log_near - way.log_far);
        to[1] += d_argument;
      }
    }
    const Vector d_near_logits =
        logits_backward(way.near, way.log_near, way.o_near, d_near, d_log_near);
    const Vector d_far_logits = logits_backward(way.far, way.log_far, way.o_far, d_far, d_log_far);
    Vector du_q(s.R, 0.0), d_log_phi_q(s.F, 0.0);
    for (std::size_t j = 0; j < s.S; ++j) {
      if (!std::isinf(way.near[j]) && by_model()) {
        model_pair_backward(way.t, j, d_near_logits[j]);
      } else if (!std::isinf(way.near[j])) {
        near_pair_backward(way, j, d_near_logits[j], du_q);
      }
      if (!std::isinf(way.far[j])) {
        far_pair_backward(way, j, d_far_logits[j], du_q, d_log_phi_q);
      }
    }
    const Vector dx = s.softmax_features
                          ? softmax_backward(factor, way.x, way.log_phi_q, d_log_phi_q)
                          : map_backward(factor, way.x, du_q);
    for (std::size_t d = 0; d < s.D; ++d) {
      dq[((b * s.H + h) * s.T + way.t) * s.D + d] += dx[d];
      query_center.gradient[n * s.D + d] -= dx[d];
    }
  }

  // logits -> (softmax average, log-sum-exp): dlogit_j = p_j (d_y . (v_j - y) + d_log), dv_j += p_j
  // d_y
  Vector logits_backward(
      const Vector& logits, double log_sum, const Vector& y, const Vector& d_y, double d_log) {
    Vector d_logits(s.S, 0.0);
    for (std::size_t j = 0; j < s.S; ++j) {
      if (std::isinf(logits[j])) {
        continue;
      }
      const double p = std::exp(logits[j] - log_sum);
      double along = d_log;
      for (std::size_t d = 0; d < s.Dv; ++d) {
        along += d_y[d] * (value(j, d) - y[d]);
        dv[((b * s.G + g) * s.S + j) * s.Dv + d] += p * d_y[d];
      }
      d_logits[j] = p * along;
    }
    return d_logits;
  }

  // logit = (u_q + m) . u_k
  void near_pair_backward(const Way& way, std::size_t j, double d_logit, Vector& du_q) {
    for (std::size_t r = 0; r < s.R; ++r) {
      du_q[r] += d_logit * u_k[j][r];
      d_center_map[r] += d_logit * u_k[j][r];
      du_k[j][r] += d_logit * way.full[r];
    }
  }

  // logit = scale q . (k - b)
  void model_pair_backward(std::size_t t, std::size_t j, double d_logit) {
    const Vector key = centred(in.k, g, j, key_center, g);
    for (std::size_t d = 0; d < s.D; ++d) {
      const double d_key = d_logit * s.scale * query(t, d);
      dq[((b * s.H + h) * s.T + t) * s.D + d] += d_logit * s.scale * key[d];
      dk[((b * s.G + g) * s.S + j) * s.D + d] += d_key;
      key_center.gradient[g * s.D + d] -= d_key;
    }
  }

  // logit = log sum_f exp(log_phi_q + log_phi_k) - log F
  void far_pair_backward(
      const Way& way, std::size_t j, double d_logit, Vector& du_q, Vector& d_log_phi_q) {
    for (std::size_t f = 0; f < s.F; ++f) {
      const double part = std::exp(way.log_phi_q[f] + log_phi_k[j][f] - log_count() - way.far[j]);
      const double d_log = d_logit * part;
      if (s.softmax_features) {
        d_log_phi_q[f] += d_log;
        d_log_phi_k[j][f] += d_log;
        continue;
      }
      log_weights.gradient[n * s.F + f] += d_log;  // half of lambda on each side
      for (std::size_t r = 0; r < s.R; ++r) {
        const double w = draws.value[(n * s.F + f) * s.R + r];
        draws.gradient[(n * s.F + f) * s.R + r] += d_log * (way.u_q[r] + u_k[j][r]);
        du_q[r] += d_log * (w - way.u_q[r]);
        du_k[j][r] += d_log * (w - u_k[j][r] + center_map[r]);
        d_center_map[r] += d_log * u_k[j][r];
      }
    }
  }

  Vector softmax_backward(Parameter& m, const Vector& x, const Vector& logs, const Vector& d_logs) {
    const std::size_t at = n * s.R * s.D;
    return softmax_logs_backward_ref(&m.value[at], x, logs, d_logs, &m.gradient[at]);
  }

  void keys_backward() {
    for (std::size_t j = 0; j < s.S; ++j) {
      const Vector x = centred(in.k, g, j, key_center, g);
      const Vector dx = s.softmax_features
                            ? softmax_backward(key_factor, x, log_phi_k[j], d_log_phi_k[j])
                            : map_backward(key_map(), x, du_k[j]);
      for (std::size_t d = 0; d < s.D; ++d) {
        dk[((b * s.G + g) * s.S + j) * s.D + d] += dx[d];
        key_center.gradient[g * s.D + d] -= dx[d];
      }
    }
    const Vector center(&query_center.value[n * s.D], &query_center.value[n * s.D] + s.D);
    const Vector d_center = map_backward(factor, center, d_center_map);
    for (std::size_t d = 0; d < s.D; ++d) {
      query_center.gradient[n * s.D + d] += d_center[d];
    }
  }

  std::size_t b = 0, h = 0, n = 0, g = 0;
  Vector center_map, d_center_map;
  std::vector<Vector> u_k, du_k, log_phi_k, d_log_phi_k;
};

}  // namespace

DarkReference dark_attention_ref(const DarkAttention& shape,
                                 const DarkInputs& in,
                                 const float* d_o) {
  Reference reference(shape, in);
  for (std::size_t b = 0; b < shape.B; ++b) {
    for (std::size_t h = 0; h < shape.H; ++h) {
      reference.run(b, h, d_o);
    }
  }
  return {reference.o,
          reference.dq,
          reference.dk,
          reference.dv,
          reference.draws.gradient,
          reference.factor.gradient,
          reference.key_factor.gradient,
          reference.log_weights.gradient,
          reference.query_center.gradient,
          reference.key_center.gradient,
          reference.gate.gradient};
}

}  // namespace darkformer::kernels
