// Evaluation windows: every token is a target once, BOS first, the short last window included.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/evaluation_windows.h"

#include <gtest/gtest.h>

#include "darkformer/base/scratch_folder.h"
#include "darkformer/text/test_files.h"
#include "darkformer/text/test_shards.h"

namespace darkformer::evaluation_windows_test {
namespace {

class EvaluationWindowsTest : public testing::Test {
 protected:
  // 5 .. 5 + size - 1 in three shards and more documents.
  Shards count_up(std::int32_t size) const {
    Documents documents[3];
    for (std::int32_t i = 0; i < size; ++i) {
      Documents& shard = documents[static_cast<std::size_t>(3 * i / size)];
      if (shard.empty() || i % 4 == 0) {
        shard.emplace_back();
      }
      shard.back().push_back(5 + i);
    }
    return {make_shard(folder_.path() / "a", documents[0]),
            make_shard(folder_.path() / "b", documents[1]),
            make_shard(folder_.path() / "c", documents[2])};
  }
  ScratchFolder folder_;
};

TEST_F(EvaluationWindowsTest, AnExampleByHand) {
  const EvaluationWindows windows(count_up(7), 3);
  EXPECT_EQ(windows.size(), 3);
  EXPECT_EQ(windows.tokens(), 7);
  const TokenBatch whole = windows.read_batch(0, 8);
  EXPECT_EQ(whole.rows, 2);
  EXPECT_EQ(whole.context, 3);
  EXPECT_EQ(whole.ids, (Ids{2, 5, 6, 7, 2, 8, 9, 10}));
  EXPECT_EQ(whole.counted, std::vector<std::uint8_t>(6, 1));
  const TokenBatch last = windows.read_batch(2, 8);
  EXPECT_EQ(last.rows, 1);
  EXPECT_EQ(last.context, 1);
  EXPECT_EQ(last.ids, (Ids{2, 11}));
  EXPECT_EQ(windows.read_batch(3, 8).rows, 0);
}

TEST_F(EvaluationWindowsTest, WithoutBosAWindowBeginsBehindEos) {
  TokenEncoder encoder = byte_encoder();
  encoder.bos = -1;
  const EvaluationWindows windows({make_shard(folder_.path() / "a", {{5, 6}, {7, 8}}, encoder)}, 2);
  EXPECT_EQ(windows.read_batch(0, 2).ids, (Ids{1, 5, 6, 1, 7, 8}));
}

TEST_F(EvaluationWindowsTest, EveryTokenIsATargetOnce) {
  for (const std::int32_t size : {1, 2, 16, 17, 100}) {
    const Shards shards = count_up(size);
    for (const std::int64_t context : {1, 3, 16, 17, 200}) {
      for (const std::int64_t rows : {1, 2, 50}) {
        const EvaluationWindows windows(shards, context);
        Ids targets;
        std::int64_t first = 0;
        while (first < windows.size()) {
          const TokenBatch batch = windows.read_batch(first, rows);
          ASSERT_GT(batch.rows, 0);
          ASSERT_LE(batch.rows, rows);
          for (std::int64_t row = 0; row < batch.rows; ++row) {
            const auto begin = batch.ids.begin() + row * (batch.context + 1);
            EXPECT_EQ(*begin, 2);
            targets.insert(targets.end(), begin + 1, begin + batch.context + 1);
          }
          first += batch.rows;
        }
        Ids expected;
        for (std::int32_t i = 0; i < size; ++i) {
          expected.push_back(5 + i);
        }
        EXPECT_EQ(targets, expected) << size << " tokens, context " << context;
      }
    }
  }
}

TEST_F(EvaluationWindowsTest, Errors) {
  const Shards none = {make_shard(folder_.path() / "a", {})};
  EXPECT_TRUE(contains(error_of([&] { EvaluationWindows(none, 4); }), "no token"));
  EXPECT_TRUE(contains(error_of([&] { EvaluationWindows({}, 4); }), "no text"));
  EXPECT_TRUE(contains(error_of([&] { EvaluationWindows(count_up(5), 0); }), "at least 1"));
}

}  // namespace
}  // namespace darkformer::evaluation_windows_test
