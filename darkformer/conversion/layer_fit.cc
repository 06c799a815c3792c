// A mixer for each kv head, cut out of the layer's and put back.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/conversion/layer_fit.h"

#include <ATen/ATen.h>

#include <cassert>

#include "darkformer/base/threads.h"
#include "darkformer/model/attention_spec.h"

namespace darkformer {
namespace {

using at::Tensor;

MixerShape shape_of_group(const MixerShape& shape, std::int64_t groups) {
  MixerShape part = shape;
  part.heads /= groups;
  part.kv_heads /= groups;
  return part;
}

// The g-th of `groups` equal parts along the first dimension: every tensor of a mixer has its heads
// there.
Tensor part_of(const Tensor& tensor, std::int64_t g, std::int64_t groups) {
  const std::int64_t count = tensor.size(0) / groups;
  return tensor.narrow(0, g * count, count);
}

enum class Direction { kOut, kBack };

// Copies every tensor of the layer's mixer to that of group g, or back.
void copy_group(
    Mixer& layer, Mixer& group, std::int64_t g, std::int64_t groups, Direction direction) {
  const at::NoGradGuard no_gradients;
  const auto copy = [&](const Tensor& whole, Tensor* part) {
    assert(part != nullptr);
    Tensor mine = part_of(whole, g, groups);
    direction == Direction::kOut ? part->copy_(mine) : mine.copy_(*part);
  };
  auto parameters = group.named_parameters(false);
  for (const auto& item : layer.named_parameters(false)) {
    copy(item.value(), parameters.find(item.key()));
  }
  auto buffers = group.named_buffers(false);
  for (const auto& item : layer.named_buffers(false)) {
    copy(item.value(), buffers.find(item.key()));
  }
}

}  // namespace

std::int64_t fitted_groups(const MixerShape& shape, const AttentionSpec& spec) {
  return spec.placement == Placement::kLayer ? 1 : shape.kv_heads;
}

RowFit fit_layer(Mixer& mixer,
                 Mixer* owner,
                 const MixerShape& shape,
                 const AttentionSpec& spec,
                 const RowExamples& x,
                 const RowFitOptions& options,
                 const std::function<void()>& each) {
  const std::int64_t groups = fitted_groups(shape, spec);
  const MixerShape part = shape_of_group(shape, groups);
  std::vector<RowFit> fits(static_cast<std::size_t>(groups));
  parallel_for(fits.size(), [&](std::size_t i) {
    const auto g = static_cast<std::int64_t>(i);
    std::shared_ptr<Mixer> group_owner;
    if (owner != nullptr) {
      group_owner = make_mixer(part, spec, 0, 0);
      copy_group(*owner, *group_owner, g, groups, Direction::kOut);
    }
    const std::shared_ptr<Mixer> group = make_mixer(part, spec, 0, 0, group_owner.get());
    copy_group(mixer, *group, g, groups, Direction::kOut);
    const RowExamples own = {x.q.narrow(1, g * part.heads, part.heads),
                             x.k.narrow(1, g * part.kv_heads, part.kv_heads), x.held};
    fits[i] = fit_rows(*group, part, own, options, each);
    copy_group(mixer, *group, g, groups, Direction::kBack);
  });
  RowFit all;
  for (const RowFit& fit : fits) {
    all.before.insert(all.before.end(), fit.before.begin(), fit.before.end());
    all.after.insert(all.after.end(), fit.after.begin(), fit.after.end());
  }
  return all;
}

}  // namespace darkformer
