// Windows and the split: targets on one side only, the whole corpus used, documents kept together.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/corpus_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "darkformer/base/scratch_folder.h"
#include "darkformer/text/test_files.h"
#include "darkformer/text/test_shards.h"

namespace darkformer::corpus_split_test {
namespace {

class CorpusSplitTest : public testing::Test {
 protected:
  std::shared_ptr<const PackedTokens> pack(const Documents& documents,
                                           std::int32_t vocabulary = 259) const {
    return std::make_shared<PackedTokens>(
        Shards{make_shard(folder_.path() / "a", documents, byte_encoder(vocabulary))});
  }
  ScratchFolder folder_;
};

// One document whose ids tell their own places.
Documents counting_document(std::int32_t size) {
  Documents documents(1);
  for (std::int32_t i = 0; i < size; ++i) {
    documents[0].push_back(3 + i);
  }
  return documents;
}

std::multiset<std::int64_t> targets(const WindowSet& windows) {
  std::multiset<std::int64_t> all;
  for (std::int64_t i = 0; i < windows.size(); ++i) {
    const TokenBatch row = windows.read_batch(i, 1);
    for (std::int64_t t = 0; t < row.context; ++t) {
      if (row.counted[static_cast<std::size_t>(t)] != 0) {
        all.insert(row.ids[static_cast<std::size_t>(t) + 1]);
      }
    }
  }
  return all;
}

TEST_F(CorpusSplitTest, WithoutHoldingOutTheWindowsAreTheStream) {
  const Documents documents = make_documents(20, 30);
  const Ids stream = packed(documents);
  const auto tokens = pack(documents);
  for (const std::int64_t context : {1, 2, 7, 16, 100}) {
    const CorpusSplit split = split_corpus(tokens, {.context = context});
    EXPECT_EQ(split.held_out.size(), 0);
    ASSERT_EQ(split.train.size(), (tokens->size() - 1) / context);
    for (std::int64_t w = 0; w < split.train.size(); ++w) {
      const TokenBatch row = split.train.read_batch(w, 1);
      const auto begin = stream.begin() + w * context;
      ASSERT_EQ(row.ids, Ids(begin, begin + context + 1));
      for (std::int64_t t = 0; t < context; ++t) {
        ASSERT_EQ(row.counted[static_cast<std::size_t>(t)], begin[t + 1] == 2 ? 0 : 1);
      }
    }
  }
}

TEST_F(CorpusSplitTest, BatchesOfWindows) {
  const CorpusSplit split = split_corpus(pack(make_documents(20, 30)), {.context = 16});
  const TokenBatch all = split.train.read_batch(0, 1000);
  EXPECT_EQ(all.rows, split.train.size());
  const TokenBatch part = split.train.read_batch(2, 3);
  EXPECT_EQ(part.rows, 3);
  EXPECT_TRUE(std::equal(part.ids.begin(), part.ids.end(), all.ids.begin() + 2 * 17));
  EXPECT_EQ(split.train.read_batch(split.train.size(), 5).rows, 0);
}

TEST_F(CorpusSplitTest, ByWindowsEveryTargetIsOnOneSide) {
  const auto tokens = pack(counting_document(1000), 2000);  // 1002 packed tokens
  for (const double share : {0.001, 0.01, 0.2, 0.5, 0.999}) {
    const CorpusSplit split = split_corpus(tokens, {.context = 7, .held_out = share});
    EXPECT_EQ(split.unit, SplitUnit::kWindow) << "one document cannot be divided otherwise";
    EXPECT_EQ(split.train.size() + split.held_out.size(), 1001 / 7);
    EXPECT_EQ(split.held_out.size(), std::clamp<std::int64_t>(std::llround(share * 143), 1, 142));
    auto all = targets(split.train);
    all.merge(targets(split.held_out));
    EXPECT_EQ(all.size(), 1001U);
    EXPECT_EQ(std::set<std::int64_t>(all.begin(), all.end()).size(), 1001U) << "no target twice";
  }
}

TEST_F(CorpusSplitTest, HeldOutWindowsAreSpread) {
  const CorpusSplit split =
      split_corpus(pack(counting_document(10000), 20000), {.context = 10, .held_out = 0.1});
  double sum = 0;
  for (std::int64_t i = 0; i < split.held_out.size(); ++i) {
    sum += static_cast<double>(split.held_out.number(i));
  }
  // 100 of 1000 places: the mean is 500 with a standard error of about 27; five of them.
  EXPECT_NEAR(sum / static_cast<double>(split.held_out.size()), 500, 137);
}

TEST_F(CorpusSplitTest, ByDocumentsEachIsWholeOnOneSide) {
  Documents documents;
  for (std::int32_t d = 0; d < 2000; ++d) {
    documents.emplace_back(static_cast<std::size_t>(1 + d % 9),
                           3 + d % 1500);  // 500 of them occur twice or nearly so
  }
  const auto tokens = pack(documents, 2000);
  const CorpusSplit split = split_corpus(tokens, {.context = 1, .held_out = 0.1});
  EXPECT_EQ(split.unit, SplitUnit::kDocument);
  EXPECT_EQ(split.train.size() + split.held_out.size(), tokens->size() - 2)
      << "context 1 loses one token a side";
  std::map<std::vector<std::int32_t>, int> sides;
  for (int side = 0; side < 2; ++side) {
    const WindowSet& windows = side == 0 ? split.train : split.held_out;
    Ids stream = {2};
    for (std::int64_t i = 0; i < windows.size(); ++i) {
      stream.push_back(windows.read_batch(i, 1).ids[1]);
    }
    std::vector<std::int32_t> document;
    for (const std::int64_t id : stream) {
      if (id == 1) {
        ASSERT_TRUE(sides.emplace(document, side).first->second == side)
            << "the same document on both sides";
      } else if (id == 2) {
        document.clear();
      } else {
        document.push_back(static_cast<std::int32_t>(id));
      }
    }
  }
  EXPECT_EQ(sides.size(), std::set(documents.begin(), documents.end()).size());
  // Binomial over about 1500 to 2000 distinct documents: five standard deviations around 10 %.
  const double held =
      static_cast<double>(split.held_out.size()) / static_cast<double>(tokens->size());
  EXPECT_NEAR(held, 0.1, 0.045);
}

TEST_F(CorpusSplitTest, ADocumentKeepsItsSideInAnotherCorpus) {
  Documents documents = make_documents(400, 40, 2000);
  const auto held_out_ids = [&](const Documents& corpus) {
    const CorpusSplit split = split_corpus(pack(corpus, 2000), {.context = 1, .held_out = 0.2});
    return targets(split.held_out);
  };
  const auto before = held_out_ids(documents);
  std::reverse(documents.begin(), documents.end());
  auto after = held_out_ids(documents);
  EXPECT_EQ(before, after) << "the order does not matter";
}

TEST_F(CorpusSplitTest, AutoTakesWindowsWhenDocumentsAreFew) {
  const auto few = pack(make_documents(20, 300));
  EXPECT_EQ(split_corpus(few, {.context = 8, .held_out = 0.1}).unit, SplitUnit::kWindow);
  const auto many = pack(make_documents(600, 30));
  EXPECT_EQ(split_corpus(many, {.context = 8, .held_out = 0.1}).unit, SplitUnit::kDocument);
  EXPECT_EQ(split_corpus(many, {.context = 8, .held_out = 0.1, .unit = SplitUnit::kWindow}).unit,
            SplitUnit::kWindow);
  EXPECT_EQ(split_corpus(few, {.context = 8, .held_out = 0.3, .unit = SplitUnit::kDocument}).unit,
            SplitUnit::kDocument);
}

TEST_F(CorpusSplitTest, FingerprintsTellSplitsApart) {
  const auto tokens = pack(make_documents(600, 30));
  const std::uint64_t base = split_corpus(tokens, {.context = 8, .held_out = 0.1}).fingerprint;
  EXPECT_EQ(split_corpus(tokens, {.context = 8, .held_out = 0.1}).fingerprint, base);
  EXPECT_NE(split_corpus(tokens, {.context = 9, .held_out = 0.1}).fingerprint, base);
  EXPECT_NE(split_corpus(tokens, {.context = 8, .held_out = 0.2}).fingerprint, base);
  EXPECT_NE(
      split_corpus(tokens, {.context = 8, .held_out = 0.1, .unit = SplitUnit::kWindow}).fingerprint,
      base);
  EXPECT_NE(
      split_corpus(pack(make_documents(601, 30)), {.context = 8, .held_out = 0.1}).fingerprint,
      base);
}

TEST_F(CorpusSplitTest, TooLittleText) {
  const auto tokens = pack(counting_document(10), 20);  // 12 packed tokens
  const auto error = [&](const SplitOptions& options) {
    return error_of([&] { split_corpus(tokens, options); });
  };
  EXPECT_EQ(error({.context = 11}), "");
  EXPECT_TRUE(contains(error({.context = 12}), "the training part has no window of 13 tokens"));
  EXPECT_TRUE(contains(error({.context = 6, .held_out = 0.5}),
                       "1 window of 7 tokens, too few to hold some out"));
  EXPECT_TRUE(contains(error({.context = 2, .held_out = 0.5, .unit = SplitUnit::kDocument}),
                       "has no window"));
  EXPECT_TRUE(contains(error({.context = 0}), "at least 1 token"));
  EXPECT_TRUE(contains(error({.context = 2, .held_out = 1}), "in [0, 1)"));
  EXPECT_TRUE(contains(error({.context = 2, .held_out = -0.1}), "in [0, 1)"));
}

}  // namespace
}  // namespace darkformer::corpus_split_test
