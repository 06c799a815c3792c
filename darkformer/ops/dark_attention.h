// The attention op of the project, for C++: linear-time attention with data-aware random features.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "darkformer/ops/libtorch.h"

namespace darkformer::ops {

// B batch, H query heads, G key/value heads (H % G == 0), T queries, S keys, D and Dv sizes of key
// and value, F features, R rank, N = G or H parameter groups.
struct DarkOptions {
  Optional<at::Tensor> factor;        // M (N,R,D); none: R = D, identity
  Optional<at::Tensor> key_factor;    // (N,R,D): another map for the keys; none: factor
  Optional<at::Tensor> log_weights;   // (N,F)
  Optional<at::Tensor> query_center;  // (N,D)
  Optional<at::Tensor> key_center;    // (G,D)
  Optional<at::Tensor> gate;          // (H,2) or (B,H,T,2): (c, bias); none: (1, 0)
  Optional<double> scale;             // none: D^-1/2
  bool causal = true;
  std::int64_t window = 0;
  std::int64_t sinks = 0;
  bool model_near = false;  // window and sinks by the model's own kernel, not through the factor
  bool far_all = false;     // the features see the keys of the window and the sinks too
  // Hedgehog: the features are [softmax(M x), softmax(-M x)] of factor and key_factor (N,F/2,D),
  // both needed; draws is an empty (N,0,D), and there are neither weights nor centres.
  bool softmax_features = false;
};

// out (B,H,T,Dv) from q (B,H,T,D), k (B,G,S,D), v (B,G,S,Dv), draws (N,F,R): the formulas of
// kernels/dark_attention.h. Differentiable in every tensor. float32 and bfloat16 on the CPU run our
// kernels (float32 inside); float64 and other devices run a composition of ATen calls. Wrong
// shapes, types, devices and options throw darkformer::Error with one line.
at::Tensor dark_attention(const at::Tensor& q,
                          const at::Tensor& k,
                          const at::Tensor& v,
                          const at::Tensor& draws,
                          const DarkOptions& options = {});

// The state of a sequence: S (B,N,F,Dv), z (B,N,F), log_scale (B,N) in bits, position (1) int64,
// ring_k (B,G,window,D), ring_v, sink_k (B,G,sinks,D), sink_v, value_sum (B,N,Dv).
using DarkState = std::vector<at::Tensor>;
inline constexpr std::size_t kDarkStateTensors = 9;

// T = S more tokens of a sequence. An empty state starts one; the state given is not changed.
struct DarkPrefill {
  at::Tensor out;
  DarkState state;
};
DarkPrefill dark_attention_prefill(const at::Tensor& q,
                                   const at::Tensor& k,
                                   const at::Tensor& v,
                                   const at::Tensor& draws,
                                   const DarkOptions& options,
                                   const DarkState& state);

// One more token (T = S = 1); the state is updated in place. Not differentiable.
at::Tensor dark_attention_step(const at::Tensor& q,
                               const at::Tensor& k,
                               const at::Tensor& v,
                               const at::Tensor& draws,
                               const DarkOptions& options,
                               DarkState& state);

// g (B,H,T,1), the share of the window and the sinks in each output; 1 where there is no far key.
// Needs one of them. By the composition; not differentiable.
at::Tensor dark_near_share(const at::Tensor& q,
                           const at::Tensor& k,
                           const at::Tensor& draws,
                           const DarkOptions& options);

// Rows of the far field that fell back to the mean of their values, in this process so far.
std::int64_t vanished_rows();

// While one lives on this thread, every op runs its composition of ATen calls: for tests.
class ForceComposition {
 public:
  ForceComposition();
  ~ForceComposition();
  ForceComposition(const ForceComposition&) = delete;
  ForceComposition& operator=(const ForceComposition&) = delete;

 private:
  bool before_;
};
bool composition_forced();
void set_composition_forced(bool forced);

}  // namespace darkformer::ops
