// The sums of the evaluator against plain softmaxes in double.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/evaluator.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "darkformer/evaluation/batch_tensors.h"
#include "darkformer/model/small_decoder.h"

namespace darkformer::evaluator_test {
namespace {

using at::Tensor;

TokenBatch some_batch(std::int64_t rows, std::int64_t context, std::int64_t vocabulary) {
  TokenBatch batch(rows, context);
  for (std::size_t i = 0; i < batch.ids.size(); ++i) {
    batch.ids[i] = static_cast<std::int64_t>(i * 7919 + 13) % vocabulary;
  }
  for (std::size_t i = 0; i < batch.counted.size(); ++i) {
    batch.counted[i] = i % 5 == 3 ? 0 : 1;
  }
  return batch;
}

// log p (B,T,V) in double.
Tensor log_probabilities(Decoder& model, const TokenBatch& batch) {
  const at::NoGradGuard no_gradients;
  return at::log_softmax(model.logits(model.forward(tensors_of(batch).inputs)).to(at::kDouble), -1);
}

// The same sums, target by target.
Measures plain_measures(Decoder& model, Decoder& base, const TokenBatch& batch) {
  const Tensor ours = log_probabilities(model, batch).flatten(0, 1);
  const Tensor theirs = log_probabilities(base, batch).flatten(0, 1);
  Measures sums;
  for (std::int64_t i = 0; i < batch.rows * batch.context; ++i) {
    if (batch.counted[static_cast<std::size_t>(i)] != 0) {
      const std::int64_t row = i / batch.context, t = i % batch.context;
      const auto target = batch.ids[static_cast<std::size_t>(row * (batch.context + 1) + t + 1)];
      sums += {1, -ours[i][target].item<double>(),
               ours[i].argmax().item<std::int64_t>() == target ? 1 : 0,
               (theirs[i].exp() * (theirs[i] - ours[i])).sum().item<double>(),
               ours[i].argmax().equal(theirs[i].argmax()) ? 1 : 0};
    }
  }
  return sums;
}

void expect_near(const Measures& got, const Measures& want) {
  constexpr double kTolerance = 1e-4;  // float32 logits of order 10, sums of a few hundred
  EXPECT_EQ(got.tokens, want.tokens);
  EXPECT_EQ(got.correct, want.correct);
  EXPECT_EQ(got.agreeing, want.agreeing);
  EXPECT_NEAR(got.loss(), want.loss(), kTolerance);
  EXPECT_NEAR(got.kl(), want.kl(), kTolerance);
}

TEST(Evaluator, SumsOfAllTargetsAndBuckets) {
  for (const Family family : all_families()) {
    const auto model = small_decoder(small_config(family), 1);
    const auto base = small_decoder(small_config(family), 2);
    Evaluator evaluator(model, base);
    Measures want;
    for (const std::int64_t context : {37, 37, 5}) {  // a short last window
      const TokenBatch batch = some_batch(3, context, model->config().vocab_size);
      evaluator.add(batch);
      want += plain_measures(*model, *base, batch);
    }
    expect_near(evaluator.result().all, want);
    ASSERT_EQ(evaluator.result().by_position.size(), 3U);
    Measures buckets;
    for (const Measures& bucket : evaluator.result().by_position) {
      EXPECT_GT(bucket.tokens, 0);
      buckets += bucket;
    }
    expect_near(buckets, want);
  }
}

TEST(Evaluator, ModelAgreesWithItself) {
  const auto model = small_decoder(small_config(Family::kGemma2));
  Evaluator evaluator(model, model);
  evaluator.add(some_batch(2, 9, model->config().vocab_size));
  EXPECT_EQ(evaluator.result().all.kl(), 0.0);
  EXPECT_EQ(evaluator.result().all.agreement(), 1.0);
}

// Targets set to what the model says are all correct; with one target changed, one less.
TEST(Evaluator, CountsCorrectTargets) {
  const auto model = small_decoder(small_config(Family::kGemma1));
  TokenBatch batch = some_batch(1, 1, model->config().vocab_size);
  batch.counted = {1};
  const auto best = log_probabilities(*model, batch).argmax(-1).item<std::int64_t>();
  for (const std::int64_t target : {best, (best + 1) % model->config().vocab_size}) {
    batch.ids[1] = target;
    Evaluator evaluator(model);
    evaluator.add(batch);
    EXPECT_EQ(evaluator.result().all.accuracy(), target == best ? 1.0 : 0.0);
  }
}

TEST(Evaluator, VocabulariesMustAgree) {
  ModelConfig other = small_config(Family::kGemma1);
  other.vocab_size += 1;
  EXPECT_THROW(Evaluator(small_decoder(small_config(Family::kGemma1)), small_decoder(other)),
               Error);
}

TEST(Measures, BucketsDouble) {
  const std::vector<std::int64_t> positions = {0, 15, 16, 31, 32, 63, 64};
  const std::vector<std::int64_t> want = {0, 0, 1, 1, 2, 2, 3};
  for (std::size_t i = 0; i < positions.size(); ++i) {
    EXPECT_EQ(position_bucket(positions[i]), want[i]) << positions[i];
  }
}

TEST(Measures, JsonHasMeans) {
  EvaluationResult result;
  result.all = {4, 2.0, 3};
  result.by_position = {result.all};
  const OrderedJson object = evaluation_json(result);
  EXPECT_EQ(object["loss"], 0.5);
  EXPECT_EQ(object["perplexity"], std::exp(0.5));
  EXPECT_EQ(object["accuracy"], 0.75);
  EXPECT_EQ(object["tokens"], 4);
  EXPECT_FALSE(object.contains("kl"));
  EXPECT_EQ(object["by_position"][0]["last"], 15);
}

}  // namespace
}  // namespace darkformer::evaluator_test
