// Generation: what it emits, where it ends, and that the seed decides.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/generation.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "darkformer/base/error.h"
#include "darkformer/base/interrupt.h"
#include "darkformer/model/small_decoder.h"
#include "darkformer/text/tokenizer_samples.h"

namespace darkformer::generation_test {
namespace {

class GenerationTest : public ::testing::Test {
 protected:
  GenerationTest() : tokenizer_(Tokenizer(sample_model(), "sample", 0)) {
    ModelConfig config = small_config(Family::kGemma3);
    config.vocab_size = tokenizer_->size();
    model_ = small_decoder(config);
  }

  Generation run(const GenerationOptions& options, bool with_text = true) {
    DecoderState state;
    model_->extend(at::tensor({2, 70, 71}, at::kLong).view({1, 3}), state);
    streamed_.clear();
    return generate(*model_, state, with_text ? tokenizer_ : std::nullopt, options,
                    [&](std::int64_t, const std::string& text) { streamed_ += text; });
  }

  std::optional<Tokenizer> tokenizer_;
  std::shared_ptr<Decoder> model_;
  std::string streamed_;
};

TEST_F(GenerationTest, StreamsTheTextOfItsIds) {
  const Generation result = run({.max_tokens = 30, .sampler = {.temperature = 2}});
  EXPECT_EQ(result.end, EndReason::kMaxTokens);
  ASSERT_EQ(result.ids.size(), 30U);
  const std::vector<std::int32_t> ids(result.ids.begin(), result.ids.end());
  EXPECT_EQ(result.text, tokenizer_->decode(ids));
  EXPECT_EQ(streamed_, result.text);
}

TEST_F(GenerationTest, ThePrefixDoesNotDependOnTheLength) {
  const SamplerOptions sampler = {.temperature = 1.5, .seed = 5};
  const auto few = run({.max_tokens = 5, .sampler = sampler}).ids;
  const auto many = run({.max_tokens = 20, .sampler = sampler}).ids;
  EXPECT_EQ(few, std::vector(many.begin(), many.begin() + 5));
  EXPECT_NE(many, run({.max_tokens = 20, .sampler = {.temperature = 1.5, .seed = 6}}).ids);
}

TEST_F(GenerationTest, EndsAtAnEndId) {
  const auto ids = run({.max_tokens = 10, .sampler = {.temperature = 2}}).ids;
  const Generation result =
      run({.max_tokens = 10, .sampler = {.temperature = 2}, .end_ids = {ids[4]}});
  EXPECT_EQ(result.end, EndReason::kEndOfText);
  EXPECT_LE(result.ids.size(), 4U);
  EXPECT_TRUE(std::equal(result.ids.begin(), result.ids.end(), ids.begin()));
}

TEST_F(GenerationTest, EndsBeforeAStopString) {
  const std::string text = run({.max_tokens = 30, .sampler = {.temperature = 2}}).text;
  ASSERT_GT(text.size(), 12U);
  const std::string stop = text.substr(8, 4);
  const Generation result = run({.max_tokens = 30, .sampler = {.temperature = 2}, .stop = {stop}});
  EXPECT_EQ(result.end, EndReason::kStopString);
  EXPECT_EQ(result.text, text.substr(0, text.find(stop)));
  EXPECT_EQ(streamed_, result.text);
}

TEST_F(GenerationTest, WithoutATokenizerThereAreOnlyIds) {
  const Generation result = run({.max_tokens = 4}, false);
  EXPECT_EQ(result.ids.size(), 4U);
  EXPECT_EQ(result.text, "");
  EXPECT_THROW(run({.max_tokens = 4, .stop = {"x"}}, false), Error);
}

TEST_F(GenerationTest, StopsWhenInterrupted) {
  set_interrupted(true);
  const Generation result = run({.max_tokens = 4});
  set_interrupted(false);
  EXPECT_EQ(result.end, EndReason::kInterrupted);
  EXPECT_TRUE(result.ids.empty());
}

TEST_F(GenerationTest, ZeroTokensIsNothing) {
  EXPECT_TRUE(run({.max_tokens = 0}).ids.empty());
}

}  // namespace
}  // namespace darkformer::generation_test
