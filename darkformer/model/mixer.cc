// Choosing a mixer, and the states of all of them.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/model/mixer.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "darkformer/base/error.h"
#include "darkformer/model/attention_spec.h"
#include "darkformer/model/baseline_mixers.h"
#include "darkformer/model/exact_mixer.h"
#include "darkformer/model/feature_mixer.h"

namespace darkformer {
namespace {

// Attention kWindow is exact attention in a layer whose sliding window is no longer than its own.
MixerShape narrowed(MixerShape shape, std::int64_t window) {
  shape.window = shape.window > 0 ? std::min(shape.window, window) : window;
  return shape;
}

}  // namespace

MixerState MixerState::clone() const {
  MixerState copy;
  for (const at::Tensor& tensor : tensors) {
    copy.tensors.push_back(tensor.clone());
  }
  return copy;
}

MixerState MixerState::select(const at::Tensor& rows) const {
  MixerState chosen;
  for (const at::Tensor& tensor : tensors) {
    const bool counts = tensor.scalar_type() == at::kLong;
    chosen.tensors.push_back(counts ? tensor.clone() : tensor.index_select(0, rows));
  }
  return chosen;
}

std::int64_t MixerState::bytes() const {
  std::int64_t total = 0;
  for (const at::Tensor& tensor : tensors) {
    total += static_cast<std::int64_t>(tensor.nbytes());
  }
  return total;
}

at::Tensor Mixer::forward_part(AttentionPart,
                               const at::Tensor& q,
                               const at::Tensor& k,
                               const at::Tensor& v) {
  return forward(q, k, v);
}

at::Tensor Mixer::extend_shared(const at::Tensor& q,
                                const at::Tensor& k,
                                const at::Tensor& v,
                                const MixerState& before,
                                const MixerState&) {
  MixerState copy = before.clone();
  return extend(q, k, v, copy);
}

void Mixer::redraw(std::uint64_t, std::int64_t) {}

std::shared_ptr<Mixer> make_mixer(const MixerShape& shape,
                                  const AttentionSpec& spec,
                                  std::uint64_t seed,
                                  std::int64_t draw_index,
                                  const Mixer* owner) {
  require(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0, "layer ", shape.layer, ": ",
          shape.heads, " heads do not divide among ", shape.kv_heads, " key heads");
  check_attention_spec(spec, shape.head_dim, concat("layer ", shape.layer));
  switch (spec.kind) {
    case AttentionKind::kExact:
      return std::make_shared<ExactMixer>(shape);
    case AttentionKind::kWindow:
      return std::make_shared<ExactMixer>(narrowed(shape, spec.window));
    case AttentionKind::kConstant:
      return std::make_shared<ConstantMixer>(shape);
    case AttentionKind::kRandom:
      return std::make_shared<RandomMixer>(shape, seed, draw_index);
    default:
      return std::make_shared<FeatureMixer>(shape, spec, seed, draw_index,
                                            dynamic_cast<const FeatureMixer*>(owner));
  }
}

std::int64_t mixer_state_bytes(const MixerShape& shape,
                               const AttentionSpec& spec,
                               std::int64_t tokens) {
  return has_features(spec.kind) ? feature_state_bytes(shape, spec)
                                 : make_mixer(shape, spec, 0, 0)->state_bytes(tokens);
}

}  // namespace darkformer
