// Backward pass of feature attention: threads over groups and stretches of time, then the sums of
// the parameters' gradients.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "darkformer/base/threads.h"
#include "darkformer/kernels/feature_attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "darkformer/kernels/feature_attention_backward.cc"
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <hwy/highway.h>

#include "darkformer/kernels/feature_backward_walk-inl.h"
#include "darkformer/kernels/feature_plan.h"

HWY_BEFORE_NAMESPACE();
namespace darkformer::kernels::HWY_NAMESPACE {
namespace {  // equal names in other files are other things

// to[n] <- the sum over all tasks of group n, in their order.
void add_parameters(const FeatureAttentionInputs& in,
                    const FeatureTask& task,
                    const ParameterGradients& from,
                    const FeatureAttentionGradients& to) {
  const auto add = [](const std::vector<float>& rows, std::size_t count, std::size_t ld,
                      std::size_t width, float* sums) {
    for (std::size_t i = 0; sums != nullptr && i < count * width; ++i) {
      sums[i] += rows[i / width * ld + i % width];
    }
  };
  const auto group = [&](float* sums, std::size_t count) {
    return sums == nullptr ? nullptr : sums + task.n * count;
  };
  add(from.query_draws, in.F, from.ldq, in.Dq, group(to.d_query_draws, in.F * in.Dq));
  add(from.key_draws, in.F, from.ldk, in.Dk, group(to.d_key_draws, in.F * in.Dk));
  add(from.bias, 1, in.F, in.F, group(to.d_bias, in.F));
  add(from.key_slope, 1, in.Dk, in.Dk, group(to.d_key_slope, in.Dk));
}

RunningGradient copy_of(const RunningGradient& from) {
  RunningGradient copy(from.F, from.Dv);
  copy.scale = from.scale;
  copy.add(from);
  return copy;
}

// The first scale that a walk back through this task would end on.
std::int32_t scale_on_entry(const FeatureCache::Task& task) {
  return task.blocks.empty() ? kNoScale : task.blocks.front().scale;
}

// What the queries after each causal stretch give it, from what each stretch's own queries give.
void enter_backward(const FeatureAttentionInputs& in,
                    const FeatureAttentionGradients& out,
                    std::size_t problem,
                    std::size_t stretches,
                    std::vector<RunningGradient>& gradients) {
  RunningGradient running(in.F, in.Dv);
  for (std::size_t i = (problem + 1) * stretches; i-- > problem * stretches;) {
    RunningGradient own = std::move(gradients[i]);
    gradients[i] = copy_of(running);
    const std::int32_t scale = scale_on_entry(out.cache->tasks[i]);
    if (scale != kNoScale) {
      running.rescale(scale);
      own.rescale(scale);
      running.add(own);
    }
  }
}

// What all queries give each key, for every non-causal stretch.
void enter_backward_all(const FeatureAttentionInputs& in,
                        std::size_t problem,
                        std::size_t stretches,
                        std::vector<RunningGradient>& gradients) {
  RunningGradient total(in.F, in.Dv);
  for (std::size_t i = problem * stretches; i < (problem + 1) * stretches; ++i) {
    if (gradients[i].scale != kNoScale) {
      total.rescale(gradients[i].scale);
      total.add(gradients[i]);
    }
  }
  for (std::size_t i = problem * stretches; i < (problem + 1) * stretches; ++i) {
    gradients[i] = copy_of(total);
  }
}

void feature_backward(const FeatureAttentionInputs& in, const FeatureAttentionGradients& out) {
  const std::size_t stretches = out.cache->tasks.size() / (in.B * in.N);
  const std::vector<FeatureTask> tasks = feature_tasks(in, stretches);
  std::vector<RunningGradient> gradients;
  std::vector<ParameterGradients> parameters;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    gradients.emplace_back(in.F, in.Dv);
    parameters.emplace_back(in);
  }
  const auto walk_task = [&](std::size_t i, auto&& pass) {
    BackwardWalk walk(in, out, tasks[i]);
    std::swap(walk.later, gradients[i]);
    std::swap(walk.parameters, parameters[i]);
    pass(walk);
    std::swap(walk.later, gradients[i]);
    std::swap(walk.parameters, parameters[i]);
  };
  if (!in.causal) {
    parallel_for(tasks.size(), [&](std::size_t i) {
      walk_task(i, [](BackwardWalk& walk) { walk.run_queries(); });
    });
    parallel_for(in.B * in.N,
                 [&](std::size_t p) { enter_backward_all(in, p, stretches, gradients); });
    parallel_for(tasks.size(),
                 [&](std::size_t i) { walk_task(i, [](BackwardWalk& walk) { walk.run_keys(); }); });
  } else {
    if (stretches > 1) {
      parallel_for(tasks.size(), [&](std::size_t i) {
        walk_task(i, [](BackwardWalk& walk) { walk.sum_queries(); });
      });
      parallel_for(in.B * in.N,
                   [&](std::size_t p) { enter_backward(in, out, p, stretches, gradients); });
    }
    parallel_for(tasks.size(),
                 [&](std::size_t i) { walk_task(i, [](BackwardWalk& walk) { walk.run_all(); }); });
  }
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    add_parameters(in, tasks[i], parameters[i], out);
  }
}

}  // namespace
}  // namespace darkformer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace darkformer::kernels {
namespace {
HWY_EXPORT(feature_backward);

void clear(float* values, std::size_t count) {
  if (values != nullptr) {
    std::fill(values, values + count, 0.0F);
  }
}

// Queries that see no key and keys that no query sees are in no block.
void clear_unseen(const FeatureAttentionInputs& in, const FeatureAttentionGradients& grads) {
  for (std::size_t bh = 0; bh < in.B * in.H; ++bh) {
    clear(grads.dq + bh * in.T * in.Dq, blind_queries(in) * in.Dq);
  }
  const std::size_t end = std::min(in.S, seen_keys_end(in)), begin = std::min(in.skip, end);
  for (std::size_t bn = 0; bn < in.B * in.N; ++bn) {
    clear(grads.dk + bn * in.S * in.Dk, begin * in.Dk);
    clear(grads.dv + bn * in.S * in.Dv, begin * in.Dv);
    clear(grads.dk + (bn * in.S + end) * in.Dk, (in.S - end) * in.Dk);
    clear(grads.dv + (bn * in.S + end) * in.Dv, (in.S - end) * in.Dv);
  }
}

}  // namespace

void feature_attention_backward(const FeatureAttentionInputs& in,
                                const FeatureAttentionGradients& grads) {
  clear_unseen(in, grads);
  clear(grads.d_query_draws, in.N * in.F * in.Dq);
  clear(grads.d_key_draws, in.N * in.F * in.Dk);
  clear(grads.d_bias, in.N * in.F);
  clear(grads.d_key_slope, in.N * in.Dk);
  HWY_DYNAMIC_DISPATCH(feature_backward)(in, grads);
}

}  // namespace darkformer::kernels
#endif  // HWY_ONCE
