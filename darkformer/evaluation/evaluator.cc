// Forward passes, and the sums over their targets.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/evaluator.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "darkformer/base/error.h"
#include "darkformer/evaluation/batch_tensors.h"
#include "darkformer/model/decoder.h"

namespace darkformer {
namespace {

using at::Tensor;

// Logits of a block of rows take at most this many floats (64 MiB) for each model.
constexpr std::int64_t kBlockLogits = std::int64_t{1} << 24;

// What two models say of the same rows (n,E), (n,E'): KL (n) and agreement (n).
struct Comparison {
  Tensor kl, agreeing;
};

Comparison compare_rows(const Tensor& logits, const Tensor& base_logits) {
  const Tensor log_p = at::log_softmax(logits, -1);          // (n,V)
  const Tensor log_base = at::log_softmax(base_logits, -1);  // (n,V)
  const Tensor kl = (log_base.exp() * (log_base - log_p)).sum(-1);
  return {kl, logits.argmax(-1).eq(base_logits.argmax(-1))};
}

Comparison compare(const Decoder& model,
                   const Decoder& base,
                   const Tensor& hidden,
                   const Tensor& base_hidden) {
  const Tensor rows = hidden.flatten(0, 1), base_rows = base_hidden.flatten(0, 1);
  const std::int64_t n = rows.size(0);
  const std::int64_t block = std::max<std::int64_t>(1, kBlockLogits / model.config().vocab_size);
  Comparison all{at::empty({n}), at::empty({n}, at::kBool)};
  for (std::int64_t begin = 0; begin < n; begin += block) {
    const std::int64_t count = std::min(block, n - begin);
    const Comparison part = compare_rows(model.logits(rows.narrow(0, begin, count)),
                                         base.logits(base_rows.narrow(0, begin, count)));
    all.kl.narrow(0, begin, count).copy_(part.kl);
    all.agreeing.narrow(0, begin, count).copy_(part.agreeing);
  }
  return all;
}

}  // namespace

Evaluator::Evaluator(std::shared_ptr<Decoder> model, std::shared_ptr<Decoder> base)
    : model_(std::move(model)), base_(std::move(base)) {
  result_.compared = base_ != nullptr;
  require(!base_ || base_->config().vocab_size == model_->config().vocab_size,
          "the models have vocabularies of ", model_->config().vocab_size, " and ",
          base_ ? base_->config().vocab_size : 0,
          " tokens; only models of one vocabulary can be compared");
}

void Evaluator::add(const TokenBatch& batch) {
  if (batch.rows == 0) {
    return;
  }
  const at::NoGradGuard no_gradients;
  const BatchTensors tokens = tensors_of(batch);
  const Tensor hidden = model_->forward(tokens.inputs);
  const ops::CrossEntropy entropy = model_->loss(hidden, tokens.targets);
  const Tensor loss = entropy.loss.to(at::kDouble).contiguous();
  const Tensor correct = entropy.correct.contiguous();
  Comparison other;
  if (base_) {
    other = compare(*model_, *base_, hidden, base_->forward(tokens.inputs));
  }
  const std::int64_t T = batch.context;
  result_.by_position.resize(
      std::max(result_.by_position.size(), static_cast<std::size_t>(position_bucket(T - 1)) + 1));
  for (std::int64_t i = 0; i < batch.rows * T; ++i) {
    if (batch.counted[static_cast<std::size_t>(i)] == 0) {
      continue;
    }
    Measures one{1, loss.data_ptr<double>()[i], correct.data_ptr<bool>()[i] ? 1 : 0};
    if (base_) {
      one.kl_sum = other.kl.data_ptr<float>()[i];
      one.agreeing = other.agreeing.data_ptr<bool>()[i] ? 1 : 0;
    }
    result_.all += one;
    result_.by_position[static_cast<std::size_t>(position_bucket(i % T))] += one;
  }
}

std::int64_t evaluation_rows(std::int64_t context) {
  constexpr std::int64_t kTokens = 4096;
  return std::max<std::int64_t>(1, kTokens / context);
}

}  // namespace darkformer
