// The exact near field of dark attention (window and sinks), and the gate that joins it to the far
// field.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "darkformer/kernels/dark_attention.h"

namespace darkformer::kernels {

// Fills o_near and log_z_near of the cache.
void near_field(const DarkAttention& shape, const DarkInputs& in, DarkCache& cache);

// Gradients of the near field with respect to its own inputs. Where it is mapped these are Mq q
// (B,H,T,R), u_k (B,N,S,R) and the values per parameter group (B,N,S,Dv); elsewhere q (B,H,T,D),
// k - b (B,G,S,D) and v (B,G,S,Dv). Overwritten.
struct NearGradients {
  std::vector<float> queries, keys, values;
};
void near_field_backward(const DarkAttention& shape,
                         const DarkInputs& in,
                         const DarkCache& cache,
                         const std::vector<float>& d_o,
                         const std::vector<float>& d_log_z,
                         NearGradients& gradients);

// log_z_far <- log_z_far - |u_q|^2 / 2 (softmax features: + ln F), then
// o <- g o_near + (1 - g) o_far.
void join_fields(const DarkAttention& shape,
                 const DarkInputs& in,
                 DarkCache& cache,
                 HeadsView<float> o);

struct JoinGradients {
  std::vector<float> d_o_near, d_o_far;      // (B,H,T,Dv)
  std::vector<float> d_log_near, d_log_far;  // (B,H,T)
  std::vector<float> d_gate;                 // as the gate
};
JoinGradients join_fields_backward(const DarkAttention& shape,
                                   const DarkInputs& in,
                                   const DarkCache& cache,
                                   HeadsView<const float> d_o);

// u <- r Mq (q - a), one row.
void mapped_query(const DarkAttention& shape,
                  const DarkInputs& in,
                  const DarkCache& cache,
                  std::size_t b,
                  std::size_t h,
                  std::size_t t,
                  float* u);

}  // namespace darkformer::kernels
