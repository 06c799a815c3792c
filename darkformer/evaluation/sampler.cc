// Sampling by weights.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "darkformer/base/error.h"
#include "darkformer/kernels/sampling_weights.h"

namespace darkformer {
namespace {

// Keeps these numbers apart from those of draws, whose streams are layers.
constexpr std::uint32_t kSamplerStream = 0x73616d70;

void require_numbers(std::span<const float> logits) {
  for (std::size_t i = 0; i < logits.size(); ++i) {
    require(!std::isnan(logits[i]), "sampling: the logit of token ", i, " is not a number");
  }
}

std::int64_t largest(std::span<const float> logits) {
  std::int64_t best = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > logits[static_cast<std::size_t>(best)]) {
      best = static_cast<std::int64_t>(i);
    }
  }
  return best;
}

}  // namespace

Sampler::Sampler(const SamplerOptions& options)
    : options_(options), random_(options.seed, kSamplerStream, options.sequence) {
  require(options.temperature >= 0 && std::isfinite(options.temperature),
          "sampling: the temperature is ", options.temperature, "; wanted 0 or more");
  require(options.top_k >= 0, "sampling: top-k is ", options.top_k, "; wanted 0 (all) or more");
  require(options.top_p > 0 && options.top_p <= 1, "sampling: top-p is ", options.top_p,
          "; wanted more than 0, at most 1");
}

std::vector<Sampler::Candidate> Sampler::keep_top_k(std::span<const float> logits) const {
  const double top = logits[static_cast<std::size_t>(largest(logits))];
  std::vector<Candidate> candidates(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    candidates[i] = {static_cast<std::int64_t>(i),
                     std::exp((double{logits[i]} - top) / options_.temperature)};
  }
  const auto k = static_cast<std::size_t>(options_.top_k);
  if (k > 0 && k < candidates.size()) {
    const auto end = candidates.begin() + options_.top_k;
    std::nth_element(candidates.begin(), end - 1, candidates.end(),
                     [&](const Candidate& a, const Candidate& b) {
                       const float x = logits[static_cast<std::size_t>(a.id)];
                       const float y = logits[static_cast<std::size_t>(b.id)];
                       return x > y || (x == y && a.id < b.id);
                     });
    candidates.erase(end, candidates.end());
    std::sort(candidates.begin(), candidates.end(),
              [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  }
  return candidates;
}

// A heap, because the share is usually reached after a few of many.
void Sampler::keep_top_p(std::vector<Candidate>& candidates) const {
  double total = 0;
  for (const Candidate& candidate : candidates) {
    total += candidate.weight;
  }
  const auto less = [](const Candidate& a, const Candidate& b) {
    return a.weight < b.weight || (a.weight == b.weight && a.id > b.id);
  };
  std::make_heap(candidates.begin(), candidates.end(), less);
  auto end = candidates.end();
  for (double sum = 0; end != candidates.begin() && sum < options_.top_p * total; --end) {
    sum += candidates.front().weight;
    std::pop_heap(candidates.begin(), end, less);
  }
  candidates.erase(candidates.begin(), end);
}

// The block of the draw, then the token in it. Where rounding leaves a draw beyond the last weight
// it is the last token that has one.
std::int64_t Sampler::pick_of_all(std::span<const float> logits) {
  constexpr float kColdest = 1e-30F;  // its inverse is finite
  weights_.resize(logits.size());
  sums_.resize(kernels::weight_blocks(logits.size()));
  kernels::sampling_weights(logits.data(), logits.size(),
                            std::max(kColdest, static_cast<float>(options_.temperature)),
                            weights_.data(), sums_.data());
  const double total = std::accumulate(sums_.begin(), sums_.end(), 0.0);
  if (!std::isfinite(total)) {  // a logit that is no number, or the largest is infinite
    require_numbers(logits);
    fail("sampling: the largest logit is infinite");
  }
  double left = random_.uniform(picks_++) * total;
  std::size_t block = 0;
  for (; block + 1 < sums_.size() && left >= sums_[block]; ++block) {
    left -= sums_[block];
  }
  const std::size_t begin = block * kernels::kWeightBlock;
  std::size_t i = begin;
  for (; i < std::min(begin + kernels::kWeightBlock, weights_.size()); ++i) {
    left -= double{weights_[i]};
    if (left < 0) {
      return static_cast<std::int64_t>(i);
    }
  }
  do {
    --i;
  } while (i > 0 && weights_[i] == 0.0F);
  return static_cast<std::int64_t>(i);
}

std::int64_t Sampler::pick(std::span<const float> logits) {
  require(!logits.empty(), "sampling: no logits");
  const bool all =
      options_.top_p >= 1 && (options_.top_k == 0 || options_.top_k >= std::ssize(logits));
  if (all && options_.temperature > 0) {
    return pick_of_all(logits);
  }
  require_numbers(logits);
  if (options_.temperature == 0) {
    return largest(logits);
  }
  std::vector<Candidate> candidates = keep_top_k(logits);
  if (options_.top_p < 1) {
    keep_top_p(candidates);
  }
  double total = 0;
  for (const Candidate& candidate : candidates) {
    total += candidate.weight;
  }
  double left = random_.uniform(picks_++) * total;
  for (const Candidate& candidate : candidates) {
    left -= candidate.weight;
    if (left < 0) {
      return candidate.id;
    }
  }
  return candidates.back().id;  // rounding
}

}  // namespace darkformer
