// Softmax attention and its gradients as the formulas say: quadratic loops in double.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <vector>

#include "darkformer/kernels/exact_attention.h"

namespace darkformer::kernels {
namespace {

bool visible(const ExactAttention& a, std::size_t i, std::size_t j) {
  if (!a.causal) {
    return true;
  }
  const auto own = static_cast<std::ptrdiff_t>(i + a.S) - static_cast<std::ptrdiff_t>(a.T);
  const auto key = static_cast<std::ptrdiff_t>(j);
  const bool in_window = a.window == 0 || key > own - static_cast<std::ptrdiff_t>(a.window);
  return key <= own && (in_window || j < a.sinks);
}

template <class X, class Y>
double dot(
    const X* x, std::ptrdiff_t x_step, const Y* y, std::ptrdiff_t y_step, std::size_t count) {
  double sum = 0.0;
  for (std::size_t d = 0; d < count; ++d) {
    const auto at = static_cast<std::ptrdiff_t>(d);
    sum += static_cast<double>(x[at * x_step]) * static_cast<double>(y[at * y_step]);
  }
  return sum;
}

// y <- y + factor x
void add_scaled(double factor,
                HeadsView<const float> x_view,
                const float* x,
                HeadsView<double> y_view,
                double* y,
                std::size_t count) {
  for (std::size_t d = 0; d < count; ++d) {
    const auto at = static_cast<std::ptrdiff_t>(d);
    y[at * y_view.element] += factor * x[at * x_view.element];
  }
}

void fill_zero(HeadsView<double> view, std::size_t b, std::size_t h, std::size_t T, std::size_t D) {
  for (std::size_t t = 0; t < T; ++t) {
    for (std::size_t d = 0; d < D; ++d) {
      view.row(b, h, t)[static_cast<std::ptrdiff_t>(d) * view.element] = 0.0;
    }
  }
}

struct Place {
  std::size_t b, h, g, i;
};

// One query: probabilities over all keys (0 where not visible) and lse.
struct Row {
  std::vector<double> p;
  std::vector<double> slope;  // ds/dx = 1 - (s / softcap)^2
  double lse = -std::numeric_limits<double>::infinity();
};

Row softmax_row(const ExactAttention& a, const AttentionInputs& in, const Place& at) {
  Row row{std::vector<double>(a.S, -std::numeric_limits<double>::infinity()),
          std::vector<double>(a.S, 1.0)};
  double top = row.lse;
  for (std::size_t j = 0; j < a.S; ++j) {
    if (visible(a, at.i, j)) {
      double s = a.scale * dot(in.q.row(at.b, at.h, at.i), in.q.element, in.k.row(at.b, at.g, j),
                               in.k.element, a.D);
      if (a.softcap > 0.0F) {
        const double t = std::tanh(s / a.softcap);
        s = a.softcap * t;
        row.slope[j] = 1.0 - t * t;
      }
      row.p[j] = s;
      top = std::max(top, s);
    }
  }
  double sum = 0.0;
  for (double& p : row.p) {
    p = std::isinf(p) ? 0.0 : std::exp(p - top);
    sum += p;
  }
  if (sum > 0.0) {
    row.lse = top + std::log(sum);
    for (double& p : row.p) {
      p /= sum;
    }
  }
  return row;
}

template <class Body>
void for_each_query(const ExactAttention& a, const Body& body) {
  for (std::size_t b = 0; b < a.B; ++b) {
    for (std::size_t h = 0; h < a.H; ++h) {
      for (std::size_t i = 0; i < a.T; ++i) {
        body(Place{b, h, h / (a.H / a.G), i});
      }
    }
  }
}

// ds_ij = p_ij (do_i.v_j - do_i.o_i + dlse_i),  dx_ij = ds_ij ds/dx
std::vector<double> score_gradients(const ExactAttention& a,
                                    const AttentionInputs& in,
                                    HeadsView<const float> d_o,
                                    double d_lse,
                                    const Row& row,
                                    const Place& at) {
  std::vector<double> dx(a.S, 0.0);
  double mean = 0.0;  // do_i.o_i
  for (std::size_t j = 0; j < a.S; ++j) {
    dx[j] =
        dot(d_o.row(at.b, at.h, at.i), d_o.element, in.v.row(at.b, at.g, j), in.v.element, a.Dv);
    mean += row.p[j] * dx[j];
  }
  for (std::size_t j = 0; j < a.S; ++j) {
    dx[j] = row.p[j] * (dx[j] - mean + d_lse) * row.slope[j];
  }
  return dx;
}

}  // namespace

std::vector<double> exact_attention_row_ref(const ExactAttention& a,
                                            const AttentionInputs& in,
                                            std::size_t b,
                                            std::size_t h,
                                            std::size_t i) {
  return softmax_row(a, in, {b, h, h / (a.H / a.G), i}).p;
}

void exact_attention_ref(const ExactAttention& a,
                         const AttentionInputs& in,
                         const AttentionOutputsRef& out) {
  for_each_query(a, [&](const Place& at) {
    const Row row = softmax_row(a, in, at);
    double* o = out.o.row(at.b, at.h, at.i);
    for (std::size_t d = 0; d < a.Dv; ++d) {
      o[static_cast<std::ptrdiff_t>(d) * out.o.element] = 0.0;
    }
    for (std::size_t j = 0; j < a.S; ++j) {
      add_scaled(row.p[j], in.v, in.v.row(at.b, at.g, j), out.o, o, a.Dv);
    }
    *out.lse.row(at.b, at.h, at.i) = row.lse;
  });
}

void exact_attention_backward_ref(const ExactAttention& a,
                                  const AttentionInputs& in,
                                  HeadsView<const float> d_o,
                                  HeadsView<const float> d_lse,
                                  const AttentionGradientsRef& out) {
  for (std::size_t b = 0; b < a.B; ++b) {
    for (std::size_t h = 0; h < a.H; ++h) {
      fill_zero(out.dq, b, h, a.T, a.D);
      fill_zero(out.dk, b, h / (a.H / a.G), a.S, a.D);
      fill_zero(out.dv, b, h / (a.H / a.G), a.S, a.Dv);
    }
  }
  for_each_query(a, [&](const Place& at) {
    const Row row = softmax_row(a, in, at);
    const double d_lse_i = d_lse ? *d_lse.row(at.b, at.h, at.i) : 0.0;
    const std::vector<double> dx = score_gradients(a, in, d_o, d_lse_i, row, at);
    for (std::size_t j = 0; j < a.S; ++j) {
      add_scaled(a.scale * dx[j], in.k, in.k.row(at.b, at.g, j), out.dq,
                 out.dq.row(at.b, at.h, at.i), a.D);
      add_scaled(a.scale * dx[j], in.q, in.q.row(at.b, at.h, at.i), out.dk,
                 out.dk.row(at.b, at.g, j), a.D);
      add_scaled(row.p[j], d_o, d_o.row(at.b, at.h, at.i), out.dv, out.dv.row(at.b, at.g, j), a.Dv);
    }
  });
}

}  // namespace darkformer::kernels
