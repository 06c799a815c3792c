// Between the two halves of dark attention's backward pass: the gradients of the fields' inputs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "darkformer/kernels/near_field.h"
#include "darkformer/kernels/softmax_features.h"

namespace darkformer::kernels {

// Gradients of the arguments of the two fields. Those of q, k and v are written where they belong
// if nothing is left to do to them.
struct FieldGradients {
  FieldGradients(const DarkAttention& s, const DarkInputs& in, const DarkGradients& out) {
    const bool softmax = s.softmax_features;
    const std::size_t Dq = softmax ? softmax_row(s) : s.D, Dk = softmax ? softmax_row(s) : s.R;
    if (softmax) {
      own_queries.resize(s.B * s.H * s.T * Dq);
    }
    if (in.parameters.factor != nullptr || s.N != s.G) {
      own_keys.resize(s.B * s.N * s.S * Dk);
    }
    if (s.N != s.G) {
      own_values.resize(s.B * s.N * s.S * s.Dv);
    }
    queries = own_queries.empty() ? out.dq : own_queries.data();
    keys = own_keys.empty() ? out.dk : own_keys.data();
    values = own_values.empty() ? out.dv : own_values.data();
    if (out.d_draws != nullptr || out.d_factor != nullptr) {
      query_draws.resize(s.N * s.F * Dq);
    }
    if ((softmax ? out.d_key_factor : out.d_draws) != nullptr) {
      key_draws.resize(s.N * s.F * Dk);
    }
    if (out.d_log_weights != nullptr) {
      bias.resize(s.N * s.F);
    }
    if (in.parameters.query_center != nullptr) {
      center.resize(s.N * s.R);
    }
  }

  // Sizes are those of random features; rows of softmax features are longer (softmax_features.h).
  float* queries;  // of q - a, through the far field (B,H,T,D)
  float* keys;     // of u_k, or of k - b without a factor (B,N,S,R): both fields and the offset
  float* values;   // (B,N,S,Dv)
  std::vector<float> own_queries, own_keys, own_values;  // their memory, where not the caller's
  std::vector<float> query_draws;  // (N,F,D), empty where not wanted, like all below
  std::vector<float> key_draws;    // (N,F,R)
  std::vector<float> bias;         // (N,F)
  std::vector<float> center;       // of m (N,R)
  std::vector<float> near;  // of Mq q, or of q without a factor (B,H,T,R), through log Zf and a
                            // mapped near field; empty without a near field
  NearGradients direct;     // of q, k - b and v through a near field that is not mapped
  std::vector<float> norm;  // sum over a group of the gradient of Mq (q - a) through |u_q|^2 (N,R)
  std::vector<float> gate;
};

// to <- to + x
inline void add(const std::vector<float>& x, float* to) {
  std::transform(x.begin(), x.end(), to, to, std::plus<>());
}

// From there through the maps: writes every gradient but that of the gate.
void arguments_backward(const DarkAttention& shape,
                        const DarkInputs& in,
                        const DarkCache& cache,
                        const DarkGradients& out,
                        FieldGradients& fields);

}  // namespace darkformer::kernels
