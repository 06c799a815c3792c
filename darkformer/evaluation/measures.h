// What is measured of a model over many targets: sums, and the means of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "darkformer/base/json.h"

namespace darkformer {

// Sums over targets. KL and agreement stay 0 without a base model.
struct Measures {
  std::int64_t tokens = 0;    // targets
  double loss_sum = 0;        // of -log p(target), natural logarithm
  std::int64_t correct = 0;   // targets that have the largest logit
  double kl_sum = 0;          // of KL(base || model)
  std::int64_t agreeing = 0;  // targets where both models have the same largest logit

  double loss() const;
  double perplexity() const;  // exp(loss)
  double accuracy() const;
  double kl() const;
  double agreement() const;

  Measures& operator+=(const Measures& other);
};

// Positions in doubling buckets: [0, 16), [16, 32), [32, 64), ...; position t is that of the token
// which is read to predict target t.
inline constexpr std::int64_t kFirstBucket = 16;
std::int64_t position_bucket(std::int64_t position);
std::int64_t bucket_begin(std::int64_t bucket);  // bucket_begin(b + 1) is its end

struct EvaluationResult {
  Measures all;
  std::vector<Measures> by_position;  // one a bucket
  bool compared = false;              // with a base model
};

// Adds loss, perplexity, accuracy and tokens to the object, and kl and agreement where `compared`.
void add_means(const Measures& measures, bool compared, OrderedJson& object);

// loss, perplexity, accuracy, tokens; kl and agreement where models were compared; by_position: the
// same for each bucket, with its first and last position.
OrderedJson evaluation_json(const EvaluationResult& result);

}  // namespace darkformer
