// How feature attention divides its work: the chunk, the keys that count, the stretches of time
// that threads take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "darkformer/kernels/feature_attention.h"

namespace darkformer::kernels {

// A stretch of the keys of one (b, n); causal queries follow their keys, others are divided evenly.
struct FeatureTask {
  std::size_t index, b, n;
  std::size_t key_begin, key_end, query_begin, query_end;
  bool last;  // of its (b, n)
};

// Keys per block.
std::size_t feature_chunk(const FeatureAttentionInputs& in);

// One past the last key that any query sees.
std::size_t seen_keys_end(const FeatureAttentionInputs& in);

// The number of keys that enter the sums.
std::size_t absorbed_keys(const FeatureAttentionInputs& in);

// The key at which the first query that sees any stops looking; earlier keys are absorbed without a
// query.
std::size_t first_query_key(const FeatureAttentionInputs& in);

// Queries that see no key of this call.
std::size_t blind_queries(const FeatureAttentionInputs& in);

// Into how many stretches each (b, n) is divided; depends on the sizes and on threads() only.
std::size_t feature_stretches(const FeatureAttentionInputs& in);

std::vector<FeatureTask> feature_tasks(const FeatureAttentionInputs& in, std::size_t stretches);

}  // namespace darkformer::kernels
