// The division of feature attention into chunks and tasks.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/kernels/feature_plan.h"

#include <algorithm>

#include "darkformer/base/threads.h"

namespace darkformer::kernels {

std::size_t feature_chunk(const FeatureAttentionInputs& in) {
  constexpr std::size_t kChunk = 64;  // 32 to 64 was best of 16 … 256 for F = 64 … 256
  const std::size_t chunk = in.chunk > 0 ? in.chunk : kChunk;
  return std::min(chunk, std::max<std::size_t>(1, std::max(in.S, in.T)));
}

std::size_t seen_keys_end(const FeatureAttentionInputs& in) {
  const std::size_t end = in.causal ? in.S - std::min(in.delay, in.S) : in.S;
  return std::max(end, in.skip);
}

std::size_t absorbed_keys(const FeatureAttentionInputs& in) {
  return seen_keys_end(in) - std::min(in.skip, seen_keys_end(in));
}

std::size_t first_query_key(const FeatureAttentionInputs& in) {
  const std::size_t past = in.S - in.T;
  return std::max(in.skip, past - std::min(past, in.delay));
}

std::size_t blind_queries(const FeatureAttentionInputs& in) {
  if (!in.causal) {
    return in.skip >= in.S ? in.T : 0;
  }
  // Query t sees key skip iff t + (S - T) - delay >= skip.
  const std::size_t needed = in.skip + in.delay, past = in.S - in.T;
  return needed <= past ? 0 : std::min(in.T, needed - past);
}

std::size_t feature_stretches(const FeatureAttentionInputs& in) {
  const std::size_t problems = in.B * in.N, workers = static_cast<std::size_t>(threads());
  if (problems == 0 || problems >= workers) {
    return 1;
  }
  // A stretch costs one more pass over its keys: it must be worth several blocks.
  constexpr std::size_t kBlocksPerStretch = 4;
  const std::size_t blocks = std::max(absorbed_keys(in), in.T) / feature_chunk(in);
  return std::max<std::size_t>(
      1, std::min((workers + problems - 1) / problems, blocks / kBlocksPerStretch));
}

std::vector<FeatureTask> feature_tasks(const FeatureAttentionInputs& in, std::size_t stretches) {
  const std::size_t end = seen_keys_end(in), begin = std::min(in.skip, end);
  std::vector<FeatureTask> tasks;
  for (std::size_t p = 0; p < in.B * in.N; ++p) {
    for (std::size_t i = 0; i < stretches; ++i) {
      const auto part = [&](std::size_t from, std::size_t to, std::size_t k) {
        return from + (to - from) * k / stretches;
      };
      const std::size_t blind = in.causal ? 0 : blind_queries(in);
      tasks.push_back({p * stretches + i, p / in.N, p % in.N, part(begin, end, i),
                       part(begin, end, i + 1), part(blind, in.T, i), part(blind, in.T, i + 1),
                       i + 1 == stretches});
    }
  }
  return tasks;
}

}  // namespace darkformer::kernels
