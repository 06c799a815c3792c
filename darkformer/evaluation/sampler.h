// Picks the next token from logits: greedily, or at random with temperature, top-k and top-p.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "darkformer/base/philox.h"

namespace darkformer {

struct SamplerOptions {
  double temperature = 0;  // 0: the largest logit, the first of equals
  std::int64_t top_k = 0;  // only the k largest logits; 0: all
  double top_p = 1;        // of those, only the fewest that together have this share
  std::uint64_t seed = 1;
  std::uint32_t sequence = 0;  // of many with one seed: each has random numbers of its own
};

// The n-th pick depends on the seed, the sequence, n and the logits alone. One object, one
// sequence.
class Sampler {
 public:
  explicit Sampler(const SamplerOptions& options);

  // p_i ~ exp(logit_i / temperature) over the kept tokens; equal logits are kept in the order of
  // their ids. Error where a logit is not a number. Without top-k and top-p the weights are
  // float32.
  std::int64_t pick(std::span<const float> logits);

 private:
  struct Candidate {
    std::int64_t id;
    double weight;  // exp((logit - largest) / temperature)
  };

  std::int64_t pick_of_all(std::span<const float> logits);
  std::vector<Candidate> keep_top_k(std::span<const float> logits) const;
  void keep_top_p(std::vector<Candidate>& candidates) const;

  SamplerOptions options_;
  Philox random_;
  std::uint64_t picks_ = 0;
  std::vector<float> weights_;  // kept between picks
  std::vector<double> sums_;
};

}  // namespace darkformer
