// Random rows, and how they are scored.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/far_field_probe.h"

#include <algorithm>
#include <set>

#include "darkformer/base/error.h"
#include "darkformer/base/philox.h"
#include "darkformer/evaluation/evaluator.h"
#include "darkformer/model/decoder.h"

namespace darkformer {
namespace {

constexpr std::int64_t kPairs = 16;
constexpr std::int64_t kCopyRows = 8, kRecallRows = 16;  // about a thousand and 256 targets
constexpr std::uint32_t kStream = 0x50524F42;            // of the random numbers: "PROB"

// A shuffled hand of tokens, dealt one by one; shuffled again when it is used up.
class Deck {
 public:
  Deck(std::vector<std::int64_t> ids, const Philox& chance)
      : ids_(std::move(ids)), chance_(chance) {}

  std::int64_t deal() {
    const auto size = static_cast<std::uint64_t>(ids_.size());
    const std::uint64_t at = dealt_ % size;
    std::swap(ids_[at], ids_[at + chance_.below(dealt_, size - at)]);
    ++dealt_;
    return ids_[at];
  }

 private:
  std::vector<std::int64_t> ids_;
  const Philox& chance_;
  std::uint64_t dealt_ = 0;
};

void fill_copy(std::int64_t d, Deck& deck, std::int64_t* ids, std::uint8_t* counted) {
  for (std::int64_t i = 1; i <= d; ++i) {
    ids[i] = ids[i + d] = deck.deal();
  }
  // Target t is ids[t + 1]; the first one of the second time cannot be known.
  std::fill(counted + d + 1, counted + 2 * d, std::uint8_t{1});
}

std::int64_t recall_pairs(std::int64_t distance) {
  return std::min(kPairs, distance / 4);
}

void fill_recall(
    std::int64_t d, Deck& deck, const Philox& chance, std::int64_t* ids, std::uint8_t* counted) {
  const std::int64_t n = recall_pairs(d);
  std::vector<std::int64_t> order;
  for (std::int64_t i = 1; i <= d; ++i) {
    ids[i] = deck.deal();
  }
  for (std::int64_t i = 0; i < n; ++i) {
    order.push_back(i);
    const std::uint64_t other =
        chance.below((std::uint64_t{1} << 40) + static_cast<std::uint64_t>(i),
                     static_cast<std::uint64_t>(i) + 1);
    std::swap(order.back(), order[other]);
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t from = 1 + 2 * order[static_cast<std::size_t>(i)], to = d + 1 + 2 * i;
    ids[to] = ids[from], ids[to + 1] = ids[from + 1];
    counted[to] = 1;  // the target behind the key
  }
}

}  // namespace

std::string probe_task_name(ProbeTask task) {
  return task == ProbeTask::kCopy ? "copy" : "recall";
}

ProbeTokens probe_tokens(const EvaluationWindows& windows, std::int64_t tokens) {
  ProbeTokens result;
  std::set<std::int64_t> seen;
  std::int64_t read = 0;
  for (std::int64_t w = 0; w < windows.size() && read < tokens; ++w) {
    const TokenBatch batch = windows.read_batch(w, 1);
    result.bos = batch.ids.front();
    const std::int64_t count = std::min(batch.context, tokens - read);
    seen.insert(batch.ids.begin() + 1, batch.ids.begin() + 1 + count);
    read += count;
  }
  result.ids.assign(seen.begin(), seen.end());
  return result;
}

TokenBatch probe_batch(ProbeTask task,
                       const ProbeTokens& tokens,
                       std::int64_t distance,
                       std::uint64_t seed,
                       std::int64_t first,
                       std::int64_t rows) {
  require(distance >= 4, "a probe at distance ", distance, "; wanted 4 or more");
  const bool copies = task == ProbeTask::kCopy;
  const std::int64_t context = copies ? 2 * distance : distance + 2 * recall_pairs(distance);
  TokenBatch batch(rows, context);
  for (std::int64_t row = 0; row < rows; ++row) {
    const Philox chance(seed, kStream + static_cast<std::uint32_t>(task),
                        static_cast<std::uint32_t>(first + row));
    Deck deck(tokens.ids, chance);
    batch.row_ids(row)[0] = tokens.bos;
    if (copies) {
      fill_copy(distance, deck, batch.row_ids(row), batch.row_counted(row));
    } else {
      fill_recall(distance, deck, chance, batch.row_ids(row), batch.row_counted(row));
    }
  }
  return batch;
}

std::int64_t probe_length(std::int64_t distance) {
  return 2 * distance + 1;
}

std::vector<std::int64_t> probe_distances(const ModelConfig& config) {
  std::int64_t window = 0;
  for (const AttentionSpec& spec : config.attention) {
    window = std::max(window, spec.window);
  }
  std::int64_t first = 64;
  while (first < 2 * window) {
    first *= 2;
  }
  std::vector<std::int64_t> distances;
  for (const std::int64_t distance : {first, 2 * first, 4 * first}) {
    if (probe_length(distance) <= config.max_positions) {
      distances.push_back(distance);
    }
  }
  return distances;
}

ProbeScore run_probe(const std::shared_ptr<Decoder>& model,
                     ProbeTask task,
                     const ProbeTokens& tokens,
                     std::int64_t distance,
                     std::uint64_t seed) {
  const std::int64_t rows = task == ProbeTask::kCopy ? kCopyRows : kRecallRows,
                     most = evaluation_rows(probe_length(distance));
  Evaluator evaluator(model);
  for (std::int64_t first = 0; first < rows; first += most) {
    evaluator.add(probe_batch(task, tokens, distance, seed, first, std::min(most, rows - first)));
  }
  return {task, distance, evaluator.result().all};
}

OrderedJson probe_json(const std::vector<ProbeScore>& scores) {
  OrderedJson list = OrderedJson::array();
  for (const ProbeScore& score : scores) {
    list.push_back({{"task", probe_task_name(score.task)},
                    {"distance", score.distance},
                    {"accuracy", score.measures.accuracy()},
                    {"loss", score.measures.loss()},
                    {"tokens", score.measures.tokens}});
  }
  return list;
}

}  // namespace darkformer
