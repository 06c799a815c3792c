// Exact attention of some queries of a window of tokens: what predictions and statistics of a head
// are made from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "darkformer/model/observed_mixer.h"

namespace darkformer {

// n = H/G Q queries of the query heads of one kv head, Q of each head, one head behind the other.
// Kernel inputs (times sqrt(scale)), double.
struct AttentionRows {
  std::int64_t heads = 0;  // H/G
  at::Tensor positions;    // (n) int64
  at::Tensor q;            // (n,D)
  at::Tensor k, v;         // (S,D), (S,Dv)
  at::Tensor seen;         // (n,S) bool: the keys up to the query's position
  at::Tensor weights;      // (n,S): the layer's own attention, its soft cap and window included
  at::Tensor out;          // (n,Dv) <- weights v
};

// The queries are spread evenly over the window, the last token among them. Of a window longer than
// kLongestSample the first kLongestSample tokens are looked at: memory is quadratic in it.
inline constexpr std::int64_t kLongestSample = 2048;
AttentionRows attention_rows(const MixerCall& call,
                             const MixerShape& shape,
                             std::int64_t kv_head,
                             std::int64_t queries);

// How much of the attention of the queries in the second half of the window lies
//   on the last w keys, the query's own included, for each w; NaN where the window of tokens is
//   shorter than 2w, so that most queries would see no more keys than w
//   on the first keys, for each count of sinks; NaN where the second half begins before them.
// One list for each head; means over queries.
struct AttentionReach {
  std::vector<std::vector<double>> windows, sinks;  // (heads, widths)
};
AttentionReach attention_reach(const AttentionRows& rows,
                               const std::vector<std::int64_t>& windows,
                               const std::vector<std::int64_t>& sinks);

// The means over windows of tokens: `parts` has the kv heads of the first, of the second, ...
// -> all H heads.
AttentionReach mean_reach(const std::vector<AttentionReach>& parts, std::int64_t kv_heads);

// One key for each query, drawn with its attention as probability from a number of [0,1) for each:
// (n) int64.
at::Tensor attended_keys(const AttentionRows& rows, const at::Tensor& uniform);

}  // namespace darkformer
