// Mixing values by attention: the interchangeable kinds behind one door, each with its parameters
// and its decode state.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace darkformer {

struct AttentionSpec;

// What one layer keeps of B sequences, as the tensors of its kind; empty before the first token.
// int64 tensors count tokens, the same for all sequences; of the others dimension 0 is B. Copying
// shares the tensors, clone() and select() do not.
struct MixerState {
  std::vector<at::Tensor> tensors;

  MixerState clone() const;
  // Of these sequences, in this order; one may be chosen more than once. rows int64 (new B).
  MixerState select(const at::Tensor& rows) const;
  std::int64_t bytes() const;
};

// What a layer tells its mixer.
struct MixerShape {
  std::int64_t layer = 0;     // the stream of its draws
  std::int64_t heads = 0;     // H
  std::int64_t kv_heads = 0;  // G
  std::int64_t head_dim = 0;  // D
  double scale = 1.0;         // scores are scale * q . k
  double softcap = 0.0;       // exact attention only
  std::int64_t window = 0;    // the layer's own sliding window (exact attention); 0: none
};

// What is left of an attention that has near keys (window and sinks) and a far field: all of it, or
// a part, to see what each contributes.
enum class AttentionPart : std::uint8_t {
  kAll,
  kWindow,       // the near keys alone; no token looks further
  kLinear,       // the features for every key; no window, no sinks, no gate
  kConstantFar,  // window and gate as they are, the far field replaced by the mean of its values
};

// q (B,H,T,D), k (B,G,T,D), v (B,G,T,D): projected, normed and rotated, not scaled. Causal.
class Mixer : public torch::nn::Module {
 public:
  // All tokens of a sequence at once, differentiable -> (B,H,T,D).
  virtual at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) = 0;
  // The same by a part of it; an attention without such parts is used whole. Not differentiable.
  virtual at::Tensor forward_part(AttentionPart part,
                                  const at::Tensor& q,
                                  const at::Tensor& k,
                                  const at::Tensor& v);
  // T more tokens of a sequence (T = 1: a decode step) -> (B,H,T,D); the state is updated in place.
  // Not differentiable.
  virtual at::Tensor extend(const at::Tensor& q,
                            const at::Tensor& k,
                            const at::Tensor& v,
                            MixerState& state) = 0;
  // The same for the queries of another layer on the keys and values of the layer that owns the
  // state: k and v are that layer's, `before` is its state before these T tokens, `after` the one
  // with them. `before` may be empty where !shares_by_copy(). Not differentiable.
  virtual at::Tensor extend_shared(const at::Tensor& q,
                                   const at::Tensor& k,
                                   const at::Tensor& v,
                                   const MixerState& before,
                                   const MixerState& after);
  // Do layers that share the keys need a copy of the state before each extend?
  virtual bool shares_by_copy() const { return true; }
  // Applied to q (B,H,T,D) and k (B,G,T,D) before the rotation; the identity unless the spec says
  // that M acts before it.
  virtual at::Tensor map_queries(const at::Tensor& q) { return q; }
  virtual at::Tensor map_keys(const at::Tensor& k) { return k; }
  // New draws, from (seed, layer, draw_index); nothing where there are none, or where they are
  // learned or fitted.
  virtual void redraw(std::uint64_t seed, std::int64_t draw_index);
  // Bytes of state after `tokens` tokens, for one sequence.
  virtual std::int64_t state_bytes(std::int64_t tokens) const = 0;
};

// The mixer of a layer; where it shares keys and values with an earlier one, `owner` is that one's
// mixer, with whose draws, factors, weights and centres it works. Parameters are named as in the
// model folder: draws, factor, key_factor, log_weights, query_center, key_center, gate_scale,
// gate_bias, gate_weight; those that training does not touch are buffers. Draws come from (seed,
// layer, draw_index).
std::shared_ptr<Mixer> make_mixer(const MixerShape& shape,
                                  const AttentionSpec& spec,
                                  std::uint64_t seed,
                                  std::int64_t draw_index,
                                  const Mixer* owner = nullptr);

// state_bytes of the mixer that make_mixer would give, without making one.
std::int64_t mixer_state_bytes(const MixerShape& shape,
                               const AttentionSpec& spec,
                               std::int64_t tokens);

}  // namespace darkformer
