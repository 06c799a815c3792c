// Loss, accuracy and the distance to a base model, over batches of token windows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "darkformer/evaluation/measures.h"
#include "darkformer/text/token_batch.h"

namespace darkformer {

class Decoder;

// Adds up what a model says of the counted targets of the batches it is given:
//   loss = -log p(target)    correct: the target has the largest logit
//   kl = sum_v p_base(v) (log p_base(v) - log p(v))    agreeing: the same largest logit
// Memory beyond a forward pass: a block of logits of bounded size. Gradients are not recorded. The
// sums run in the order of the targets, in double. One thread calls it.
class Evaluator {
 public:
  // `base` may be null. Error: vocabularies of different sizes.
  explicit Evaluator(std::shared_ptr<Decoder> model, std::shared_ptr<Decoder> base = nullptr);

  // Error: an id outside the vocabulary.
  void add(const TokenBatch& batch);

  const EvaluationResult& result() const { return result_; }

 private:
  std::shared_ptr<Decoder> model_;
  std::shared_ptr<Decoder> base_;
  EvaluationResult result_;
};

// Rows of a batch of windows of `context` tokens that keep a forward pass small.
std::int64_t evaluation_rows(std::int64_t context);

}  // namespace darkformer
