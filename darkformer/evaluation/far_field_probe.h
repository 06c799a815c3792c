// Tasks that only far keys can solve, made of a model's own tokens: copying and recalling at a
// distance.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "darkformer/evaluation/measures.h"
#include "darkformer/model/model_config.h"
#include "darkformer/text/evaluation_windows.h"
#include "darkformer/text/token_batch.h"

namespace darkformer {

class Decoder;

enum class ProbeTask : std::uint8_t { kCopy, kRecall };
std::string probe_task_name(ProbeTask task);  // "copy", "recall"

// What probes are made of.
struct ProbeTokens {
  std::vector<std::int64_t> ids;  // different ones
  std::int64_t bos = 0;
};

// The different tokens of the first `tokens` tokens of a text, in rising order: what the model
// reads there, it knows.
ProbeTokens probe_tokens(const EvaluationWindows& windows, std::int64_t tokens);

// Rows of random tokens, without repetition where there are enough different ones; a function of
// the arguments alone.
//   copy    BOS x_1 .. x_d x_1 .. x_d: the targets that count are x_2 .. x_d of the second time, so
//           the token to look at is always d - 1 back
//   recall  BOS k_1 v_1 .. k_n v_n, filler, then the k in another order, each with its v, which
//           counts: what it asks for is about d back (d - 2n to d + 2n), n = min(16, d / 4)
// The rows are number first, first + 1, ... Error: d < 4.
TokenBatch probe_batch(ProbeTask task,
                       const ProbeTokens& tokens,
                       std::int64_t distance,
                       std::uint64_t seed,
                       std::int64_t first,
                       std::int64_t rows);

// Tokens of a row of either task, at most.
std::int64_t probe_length(std::int64_t distance);

// Three distances beyond the longest window of the model's features: the first power of two that is
// at least 64 and twice the window, its double and its fourfold; those whose rows are within the
// model's positions.
std::vector<std::int64_t> probe_distances(const ModelConfig& config);

struct ProbeScore {
  ProbeTask task = ProbeTask::kCopy;
  std::int64_t distance = 0;
  Measures measures;
};

// What the model makes of one task at one distance.
ProbeScore run_probe(const std::shared_ptr<Decoder>& model,
                     ProbeTask task,
                     const ProbeTokens& tokens,
                     std::int64_t distance,
                     std::uint64_t seed);

// [{"task", "distance", "accuracy", "loss", "tokens"}]
OrderedJson probe_json(const std::vector<ProbeScore>& scores);

}  // namespace darkformer
