// Rounds of sequences that are sampled together.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/own_text.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "darkformer/base/count_text.h"
#include "darkformer/base/error.h"
#include "darkformer/base/threads.h"
#include "darkformer/evaluation/generation.h"
#include "darkformer/model/decoder.h"

namespace darkformer {
namespace {

using Ids = std::vector<std::int64_t>;

void check(const OwnTextOptions& o, const ModelConfig& config) {
  require(o.tokens >= 1 && o.batch >= 1, "own text: wanted at least one token and one sequence");
  require(!o.start.empty(), "own text: a sequence needs a token to begin with");
  require(std::ssize(o.start) < o.context, "own text: the start has ",
          count_text(o.start.size(), "token"), ", which leaves none of the ", o.context,
          " of a sequence");
  require(o.sampler.temperature > 0,
          "own text: at temperature 0 every sequence would be the same; wanted more");
  for (const Ids& ids : {o.start, o.end_ids}) {
    for (const std::int64_t id : ids) {
      require(id >= 0 && id < config.vocab_size, "own text: token id ", id,
              " is not in the model's vocabulary of ", config.vocab_size);
    }
  }
}

// `batch` sequences from the same start to their ends.
class Round {
 public:
  // Not more than `wanted` tokens are needed of all of them, the first ones first.
  Round(Decoder& model, const OwnTextOptions& o, std::int64_t first, std::int64_t wanted)
      : model_(model), o_(o), wanted_(wanted), ids_(static_cast<std::size_t>(o.batch)) {
    for (std::int64_t i = 0; i < o.batch; ++i) {
      SamplerOptions own = o.sampler;
      own.sequence = static_cast<std::uint32_t>(first + i);
      samplers_.emplace_back(own);
      live_.push_back(i);
    }
  }

  // `start` has read the start, as one sequence.
  void run(const DecoderState& start, const std::function<void(std::int64_t tokens)>& watch) {
    DecoderState state = start.select(Ids(live_.size(), 0));
    for (;;) {
      const Ids picked = pick(state);
      std::vector<bool> goes_on(live_.size());
      for (std::size_t row = 0; row < live_.size(); ++row) {
        goes_on[row] = take(live_[row], picked[row]);
      }
      const Ids tokens = running_tokens();
      Ids rows, next, live;
      for (std::size_t row = 0; row < live_.size(); ++row) {
        // Behind enough tokens nothing more is needed.
        if (goes_on[row] && tokens[static_cast<std::size_t>(live_[row])] < wanted_) {
          rows.push_back(static_cast<std::int64_t>(row));
          next.push_back(picked[row]), live.push_back(live_[row]);
        }
      }
      watch(std::min(wanted_, tokens.back()));
      if (live.empty()) {
        return;
      }
      if (live.size() < live_.size()) {  // a copy of the state costs about what a step reads of it
        state = state.select(rows);
        live_ = live;
      }
      model_.extend(at::tensor(next, at::kLong).unsqueeze(1), state);
    }
  }

  const std::vector<Ids>& ids() const { return ids_; }

 private:
  // The next token of every live sequence.
  Ids pick(const DecoderState& state) {
    const at::Tensor logits = model_.logits(state.hidden).contiguous();  // (live,1,V)
    const auto V = static_cast<std::size_t>(logits.size(-1));
    const bool begins = ids_[static_cast<std::size_t>(live_.front())].empty();
    Ids picked(live_.size());
    parallel_for(live_.size(), [&](std::size_t row) {
      const std::span<float> values(logits.data_ptr<float>() + row * V, V);
      if (begins) {  // an empty text is none
        for (const std::int64_t end : o_.end_ids) {
          values[static_cast<std::size_t>(end)] = -std::numeric_limits<float>::infinity();
        }
      }
      try {
        picked[row] = samplers_[static_cast<std::size_t>(live_[row])].pick(values);
      } catch (const Error&) {
        require_finite(values, model_, state.position + 1);  // names the weight to blame
        throw;
      }
    });
    return picked;
  }

  // Whether the sequence goes on behind the token.
  bool take(std::int64_t sequence, std::int64_t id) {
    if (std::find(o_.end_ids.begin(), o_.end_ids.end(), id) != o_.end_ids.end()) {
      return false;
    }
    Ids& ids = ids_[static_cast<std::size_t>(sequence)];
    ids.push_back(id);
    return std::ssize(o_.start) + std::ssize(ids) < o_.context;
  }

  // Tokens of each sequence and those before it.
  Ids running_tokens() const {
    Ids sums;
    for (const Ids& ids : ids_) {
      sums.push_back((sums.empty() ? 0 : sums.back()) + std::ssize(ids));
    }
    return sums;
  }

  Decoder& model_;
  const OwnTextOptions& o_;
  std::int64_t wanted_;
  std::vector<Ids> ids_;
  std::vector<Sampler> samplers_;
  Ids live_;  // the sequences of the state's rows
};

}  // namespace

void write_own_text(
    Decoder& model,
    const OwnTextOptions& options,
    const std::vector<std::int64_t>& done,
    const std::function<void(std::int64_t sequence, const std::vector<std::int64_t>& ids)>& each,
    const std::function<void(std::int64_t tokens)>& watch) {
  check(options, model.config());
  if (std::accumulate(done.begin(), done.end(), std::int64_t{0}) >= options.tokens) {
    return;
  }
  const at::NoGradGuard no_gradients;
  // Read once and as one sequence: the same bits for every batch.
  DecoderState start;
  read_tokens(model, at::tensor(options.start, at::kLong).unsqueeze(0), start);
  // Rounds are those of an uninterrupted call: what was handed over of one is sampled again.
  const std::int64_t known = std::ssize(done);
  std::int64_t first = known - known % options.batch;
  std::int64_t written = std::accumulate(done.begin(), done.begin() + first, std::int64_t{0});
  for (; written < options.tokens; first += options.batch) {
    Round round(model, options, first, options.tokens - written);
    round.run(start, [&](std::int64_t tokens) { watch(written + tokens); });
    for (std::size_t i = 0; i < round.ids().size() && written < options.tokens; ++i) {
      Ids ids = round.ids()[i];
      ids.resize(std::min(ids.size(), static_cast<std::size_t>(options.tokens - written)));
      written += std::ssize(ids);
      const std::int64_t sequence = first + static_cast<std::int64_t>(i);
      if (sequence >= known) {
        each(sequence, ids);
      }
    }
  }
}

}  // namespace darkformer
