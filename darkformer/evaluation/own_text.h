// A model's own text: many sequences at once, sampled token by token from nothing or from a prompt.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "darkformer/evaluation/sampler.h"

namespace darkformer {

class Decoder;

struct OwnTextOptions {
  std::int64_t tokens = 0;                 // of all sequences together
  std::int64_t batch = 16;                 // sequences at once
  std::int64_t context = 1024;             // longest sequence, its start counted
  SamplerOptions sampler = {};             // `sequence` is set for each; a temperature above 0
  std::vector<std::int64_t> start = {};    // what every sequence begins with: BOS, a prompt
  std::vector<std::int64_t> end_ids = {};  // end a sequence; not part of it
};

// Samples sequences 0, 1, 2, ... and hands them over in this order, until all together have exactly
// options.tokens tokens; the last is cut there. `each` gets the ids behind the start, without the
// end id: at least one, because no sequence ends before it has begun. `watch` gets the tokens so
// far after every step, and may throw to stop. `done`: the tokens of each sequence that an earlier
// call, stopped, has handed over.
//
// Sequence i draws from (seed, i, position) and reads nothing of the others. Rows of a batch stand
// at one position: a round starts `batch` sequences together, drops from the batch what has ended
// or is no longer needed, and hands over when all have ended. Up to kernels::kMatvecVectors rows
// (and tokens of the start) the sequences are the same for every batch and every number of threads;
// beyond it another batch may round otherwise, and a token may differ. Going on from `done` gives
// the sequences of an uninterrupted call for every batch: the round that was stopped is sampled
// anew.
void write_own_text(
    Decoder& model,
    const OwnTextOptions& options,
    const std::vector<std::int64_t>& done,
    const std::function<void(std::int64_t sequence, const std::vector<std::int64_t>& ids)>& each,
    const std::function<void(std::int64_t tokens)>& watch);

}  // namespace darkformer
