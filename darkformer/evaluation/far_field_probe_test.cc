// The rows of the probe: what is asked has been said, at the distance that was asked for.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/evaluation/far_field_probe.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "darkformer/base/error.h"
#include "darkformer/model/small_decoder.h"

namespace darkformer::far_field_probe_test {
namespace {

ProbeTokens some_tokens(std::int64_t count) {
  ProbeTokens tokens{{}, 2};
  for (std::int64_t i = 0; i < count; ++i) {
    tokens.ids.push_back(100 + 3 * i);
  }
  return tokens;
}

std::vector<std::int64_t> row(const TokenBatch& batch, std::int64_t r) {
  const auto begin = batch.ids.begin() + r * (batch.context + 1);
  return {begin, begin + batch.context + 1};
}

TEST(FarFieldProbe, CopyAsksForTheSecondTime) {
  const std::int64_t d = 12;
  const TokenBatch batch = probe_batch(ProbeTask::kCopy, some_tokens(40), d, 1, 0, 3);
  ASSERT_EQ(batch.context, 2 * d);
  for (std::int64_t r = 0; r < 3; ++r) {
    const auto ids = row(batch, r);
    EXPECT_EQ(ids[0], 2);
    EXPECT_EQ(std::set<std::int64_t>(ids.begin() + 1, ids.begin() + 1 + d).size(), 12U);
    for (std::int64_t t = 0; t < 2 * d; ++t) {
      EXPECT_EQ(batch.counted[static_cast<std::size_t>(r * 2 * d + t)], t > d ? 1 : 0) << t;
      if (t > d) {
        EXPECT_EQ(ids[static_cast<std::size_t>(t + 1)], ids[static_cast<std::size_t>(t + 1 - d)]);
      }
    }
  }
  EXPECT_NE(row(batch, 0), row(batch, 1));
}

TEST(FarFieldProbe, RecallAsksForAPairAboutTheDistanceBack) {
  for (const std::int64_t d : {4, 9, 64, 100}) {
    const std::int64_t pairs = std::min<std::int64_t>(16, d / 4);
    const TokenBatch batch = probe_batch(ProbeTask::kRecall, some_tokens(200), d, 1, 0, 2);
    for (std::int64_t r = 0; r < 2; ++r) {
      const auto ids = row(batch, r);
      std::int64_t asked = 0;
      for (std::int64_t t = 0; t < batch.context; ++t) {
        if (batch.counted[static_cast<std::size_t>(r * batch.context + t)] == 0) {
          continue;
        }
        ++asked;
        const auto key = std::find(ids.begin() + 1, ids.end(), ids[static_cast<std::size_t>(t)]);
        const std::int64_t place = key - ids.begin();
        EXPECT_LE(std::abs(t - place - d), 2 * pairs);
        EXPECT_EQ(*(key + 1), ids[static_cast<std::size_t>(t + 1)]);
      }
      EXPECT_EQ(asked, pairs);
    }
  }
}

TEST(FarFieldProbe, RowsDependOnTheirNumberAndTheSeedAlone) {
  const ProbeTokens tokens = some_tokens(30);
  for (const ProbeTask task : {ProbeTask::kCopy, ProbeTask::kRecall}) {
    const TokenBatch all = probe_batch(task, tokens, 8, 5, 0, 4);
    EXPECT_EQ(row(all, 3), row(probe_batch(task, tokens, 8, 5, 3, 1), 0));
    EXPECT_NE(row(all, 3), row(probe_batch(task, tokens, 8, 6, 3, 1), 0));
  }
}

TEST(FarFieldProbe, FewTokensAreUsedAgain) {
  const TokenBatch batch = probe_batch(ProbeTask::kCopy, some_tokens(3), 10, 1, 0, 1);
  const auto ids = row(batch, 0);
  EXPECT_EQ(std::set<std::int64_t>(ids.begin() + 1, ids.end()).size(), 3U);
  EXPECT_THROW(probe_batch(ProbeTask::kCopy, some_tokens(3), 3, 1, 0, 1), Error);
}

TEST(FarFieldProbe, DistancesLieBeyondTheWindow) {
  ModelConfig config = small_config(Family::kGemma1);
  config.max_positions = 8192;
  EXPECT_EQ(probe_distances(config), (std::vector<std::int64_t>{64, 128, 256}));
  config.attention[1] = small_dark_spec();
  config.attention[1].window = 33;
  EXPECT_EQ(probe_distances(config), (std::vector<std::int64_t>{128, 256, 512}));
  config.max_positions = 513;
  EXPECT_EQ(probe_distances(config), (std::vector<std::int64_t>{128, 256}));
}

TEST(FarFieldProbe, ScoresCountTheTargets) {
  const auto model = small_decoder(small_config(Family::kGemma1));
  ProbeTokens tokens{std::vector<std::int64_t>(50), 2};
  std::iota(tokens.ids.begin(), tokens.ids.end(), 5);
  const ProbeScore copy = run_probe(model, ProbeTask::kCopy, tokens, 16, 1);
  EXPECT_EQ(copy.measures.tokens, 8 * 15);
  EXPECT_LT(copy.measures.accuracy(), 0.5);  // random weights copy nothing
  EXPECT_EQ(run_probe(model, ProbeTask::kRecall, tokens, 16, 1).measures.tokens, 16 * 4);
  EXPECT_EQ(probe_json({copy})[0]["task"], "copy");
}

}  // namespace
}  // namespace darkformer::far_field_probe_test
