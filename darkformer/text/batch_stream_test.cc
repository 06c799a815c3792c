// Batches: epochs are permutations, ranks share, positions resume, prefetching changes nothing.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/batch_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "darkformer/base/scratch_folder.h"
#include "darkformer/text/test_files.h"
#include "darkformer/text/test_shards.h"

namespace darkformer::batch_stream_test {
namespace {

constexpr std::int64_t kContext = 8;

class BatchStreamTest : public testing::Test {
 protected:
  CorpusSplit split(int documents = 40, double held_out = 0) const {
    const Documents all = make_documents(documents, 60, 5000);
    const auto half = all.begin() + documents / 2;
    const Shards shards = {
        make_shard(folder_.path() / "a", {all.begin(), half}, byte_encoder(5000)),
        make_shard(folder_.path() / "b", {half, all.end()}, byte_encoder(5000))};
    return split_corpus(std::make_shared<PackedTokens>(shards),
                        {.context = kContext, .held_out = held_out});
  }
  ScratchFolder folder_;
};

std::vector<Ids> rows_of(const TokenBatch& batch) {
  std::vector<Ids> rows;
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    const auto begin = batch.ids.begin() + row * (batch.context + 1);
    rows.emplace_back(begin, begin + batch.context + 1);
  }
  return rows;
}

std::vector<Ids> take_rows(BatchStream& stream, std::int64_t batches) {
  std::vector<Ids> rows;
  for (std::int64_t i = 0; i < batches; ++i) {
    for (const Ids& row : rows_of(stream.next())) {
      rows.push_back(row);
    }
  }
  return rows;
}

TEST_F(BatchStreamTest, AnEpochIsAPermutationOfTheWindows) {
  const CorpusSplit corpus = split();
  BatchStream stream(corpus, {.batch = 1, .seed = 4});
  const std::int64_t size = corpus.train.size();
  const auto in_order = rows_of(corpus.train.read_batch(0, size));
  const auto sorted = [](std::vector<Ids> rows) {
    std::sort(rows.begin(), rows.end());
    return rows;
  };
  const auto first = take_rows(stream, size);
  EXPECT_EQ(stream.position().epoch, 1);
  EXPECT_EQ(stream.position().index, 0);
  const auto second = take_rows(stream, size);
  EXPECT_NE(first, in_order);
  EXPECT_NE(first, second) << "each epoch has its order";
  EXPECT_EQ(sorted(first), sorted(in_order));
  EXPECT_EQ(sorted(second), sorted(in_order));
}

TEST_F(BatchStreamTest, SeedsGiveOtherOrdersAndNoShuffleGivesTheCorpus) {
  const CorpusSplit corpus = split();
  BatchStream one(corpus, {.batch = 4, .seed = 1});
  BatchStream again(corpus, {.batch = 4, .seed = 1});
  BatchStream two(corpus, {.batch = 4, .seed = 2});
  BatchStream plain(corpus, {.batch = 4, .seed = 2, .shuffle = false});
  const auto rows = take_rows(one, 5);
  EXPECT_EQ(take_rows(again, 5), rows);
  EXPECT_NE(take_rows(two, 5), rows);
  EXPECT_EQ(take_rows(plain, 5), rows_of(corpus.train.read_batch(0, 20)));
}

TEST_F(BatchStreamTest, BatchesRunAcrossEpochs) {
  const CorpusSplit corpus = split(6);
  BatchStream single(corpus, {.batch = 1, .seed = 3});
  const std::int64_t size = corpus.train.size();
  const std::int64_t large = size * 2 + 3;  // more than two epochs at once
  BatchStream stream(corpus, {.batch = large, .seed = 3});
  EXPECT_EQ(take_rows(stream, 2), take_rows(single, 2 * large));
  EXPECT_EQ(stream.position(), single.position());
  EXPECT_EQ(stream.position().epoch, 2 * large / size);
  EXPECT_EQ(stream.position().index, 2 * large % size);
}

TEST_F(BatchStreamTest, TheUnionOfRanksDoesNotDependOnTheirNumber) {
  const CorpusSplit corpus = split();
  for (const std::int64_t batch : {4, 7, 12}) {
    BatchStream single(corpus, {.batch = batch, .seed = 5});
    const TokenBatch expected[] = {single.next(), single.next(), single.next()};
    for (const int ranks : {1, 2, 3, 4}) {
      std::vector<std::unique_ptr<BatchStream>> streams;
      for (int rank = 0; rank < ranks; ++rank) {
        streams.push_back(std::make_unique<BatchStream>(
            corpus, BatchOptions{.batch = batch, .seed = 5, .rank = rank, .ranks = ranks}));
        EXPECT_NEAR(streams.back()->rows(), static_cast<double>(batch) / ranks, 1);
      }
      for (const TokenBatch& whole : expected) {
        std::vector<Ids> rows;
        std::vector<std::uint8_t> counted;
        for (const auto& stream : streams) {
          const TokenBatch part = stream->next();
          const auto part_rows = rows_of(part);
          rows.insert(rows.end(), part_rows.begin(), part_rows.end());
          counted.insert(counted.end(), part.counted.begin(), part.counted.end());
        }
        EXPECT_EQ(rows, rows_of(whole)) << batch << " windows on " << ranks << " ranks";
        EXPECT_EQ(counted, whole.counted);
      }
      EXPECT_EQ(streams.front()->position(), single.position());
    }
  }
}

TEST_F(BatchStreamTest, ARestoredPositionGoesOnTheSame) {
  const CorpusSplit corpus = split();
  BatchStream whole(corpus, {.batch = 5, .seed = 6});
  const std::int64_t batches = 3 * corpus.train.size() / 5;
  for (std::int64_t i = 0; i < batches; ++i) {
    const DataPosition saved = whole.position();
    BatchStream resumed(split(),
                        {.batch = 5, .seed = 6});  // as after a restart: everything opened again
    resumed.restore(saved);
    EXPECT_EQ(resumed.position(), saved);
    ASSERT_EQ(resumed.next(), whole.next()) << "batch " << i;
    EXPECT_EQ(resumed.position(), whole.position());
  }
}

TEST_F(BatchStreamTest, APositionCountsWindowsNotBatches) {
  const CorpusSplit corpus = split();
  BatchStream single(corpus, {.batch = 1, .seed = 6});
  BatchStream stream(corpus, {.batch = 6, .seed = 6});
  take_rows(single, 12);
  take_rows(stream, 2);
  BatchStream other(corpus, {.batch = 3, .seed = 6});
  other.restore(stream.position());
  EXPECT_EQ(take_rows(other, 5), take_rows(single, 15));
}

TEST_F(BatchStreamTest, RestoreMayGoBackAndForth) {
  const CorpusSplit corpus = split();
  BatchStream stream(corpus, {.batch = 5, .seed = 6});
  const DataPosition start = stream.position();
  const auto rows = take_rows(stream, 4);
  const DataPosition later = stream.position();
  const auto more = take_rows(stream, 4);
  stream.restore(start);
  EXPECT_EQ(take_rows(stream, 4), rows);
  stream.restore(later);
  EXPECT_EQ(take_rows(stream, 4), more);
}

TEST_F(BatchStreamTest, ForeignPositionsAreErrors) {
  const CorpusSplit corpus = split();
  BatchStream stream(corpus, {.batch = 5, .seed = 6});
  const DataPosition other_seed = BatchStream(corpus, {.batch = 5, .seed = 7}).position();
  const DataPosition other_order =
      BatchStream(corpus, {.batch = 5, .seed = 6, .shuffle = false}).position();
  const DataPosition other_split = BatchStream(split(40, 0.1), {.batch = 5, .seed = 6}).position();
  const DataPosition other_corpus = BatchStream(split(41), {.batch = 5, .seed = 6}).position();
  for (const DataPosition& position : {other_seed, other_order, other_split, other_corpus}) {
    EXPECT_TRUE(contains(error_of([&] { stream.restore(position); }), "belongs to another corpus"));
  }
  DataPosition outside = stream.position();
  outside.index = corpus.train.size();
  EXPECT_TRUE(contains(error_of([&] { stream.restore(outside); }), "is outside the"));
  outside.index = -1;
  EXPECT_TRUE(contains(error_of([&] { stream.restore(outside); }), "is outside the"));
}

TEST_F(BatchStreamTest, PrefetchingChangesNothing) {
  const CorpusSplit corpus = split();
  BatchStream plain(corpus, {.batch = 6, .seed = 8, .prefetch = 0});
  BatchStream one(corpus, {.batch = 6, .seed = 8, .prefetch = 1});
  BatchStream many(corpus, {.batch = 6, .seed = 8, .prefetch = 9});
  for (int i = 0; i < 100; ++i) {
    const TokenBatch batch = plain.next();
    ASSERT_EQ(one.next(), batch);
    ASSERT_EQ(many.next(), batch);
    EXPECT_EQ(one.position(), plain.position());
    EXPECT_EQ(many.position(), plain.position());
  }
}

TEST_F(BatchStreamTest, HeldOutWindowsAreNeverTrainedOn) {
  const CorpusSplit corpus = split(400, 0.2);
  ASSERT_EQ(corpus.unit, SplitUnit::kDocument);
  BatchStream stream(corpus, {.batch = 1, .seed = 1});
  const auto trained = take_rows(stream, 2 * corpus.train.size());
  const std::set<Ids> seen(trained.begin(), trained.end());
  for (const Ids& row : rows_of(corpus.held_out.read_batch(0, corpus.held_out.size()))) {
    EXPECT_EQ(seen.count(row), 0U);
  }
}

TEST_F(BatchStreamTest, ABadTokenReachesTheConsumerAsAnError) {
  const CorpusSplit sound = split(40);  // writes the shards
  std::string bytes = read_bytes(folder_.path() / "a");
  bytes[129 + 2 * 100] = '\xFF';
  write_bytes(folder_.path() / "bad", bytes);
  const auto tokens =
      std::make_shared<PackedTokens>(Shards{std::make_shared<TokenShard>(folder_.path() / "bad")});
  for (const std::size_t prefetch : {0, 2}) {
    const CorpusSplit corpus = split_corpus(tokens, {.context = kContext});
    BatchStream stream(corpus, {.batch = 2, .prefetch = prefetch});
    EXPECT_TRUE(contains(error_of([&] { take_rows(stream, corpus.train.size()); }),
                         "outside the vocabulary"));
  }
}

TEST_F(BatchStreamTest, MoreRanksThanWindowsInABatch) {
  EXPECT_TRUE(contains(error_of([&] { BatchStream(split(), {.batch = 3, .rank = 0, .ranks = 4}); }),
                       "a batch of 3 windows cannot be shared among 4 ranks"));
}

}  // namespace
}  // namespace darkformer::batch_stream_test
