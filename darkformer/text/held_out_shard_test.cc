// The shard holds what the split holds out, and nothing of what is trained on.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/held_out_shard.h"

#include <gtest/gtest.h>

#include <set>

#include "darkformer/base/error.h"
#include "darkformer/base/scratch_folder.h"
#include "darkformer/text/test_shards.h"

namespace darkformer::held_out_shard_test {
namespace {

constexpr std::int64_t kContext = 8;

// Ids that are all different, so that a token tells where it came from.
Documents counting_documents(int count, std::int32_t size) {
  Documents documents(static_cast<std::size_t>(count));
  std::int32_t id = 3;
  for (auto& document : documents) {
    for (std::int32_t i = 0; i < size; ++i) {
      document.push_back(id++);
    }
  }
  return documents;
}

std::set<std::int64_t> targets(const WindowSet& windows) {
  std::set<std::int64_t> ids;
  for (std::int64_t w = 0; w < windows.size(); ++w) {
    const TokenBatch batch = windows.read_batch(w, 1);
    ids.insert(batch.ids.begin() + 1, batch.ids.end());
  }
  ids.erase(1), ids.erase(2);
  return ids;
}

class HeldOutShard : public testing::Test {
 protected:
  CorpusSplit split(const Documents& documents, double share) const {
    const auto tokens =
        std::make_shared<PackedTokens>(Shards{make_shard(folder.path() / "a", documents, encoder)});
    return split_corpus(tokens, {.context = kContext, .held_out = share});
  }
  ScratchFolder folder;
  TokenEncoder encoder = byte_encoder(60000);
  std::filesystem::path file = folder.path() / "held-out.tokens";
};

TEST_F(HeldOutShard, HasTheHeldOutTokensAndNoOthers) {
  for (const int documents : {1, 200}) {
    const CorpusSplit corpus = split(counting_documents(documents, 4000 / documents), 0.2);
    const std::int64_t written = write_held_out(corpus, encoder, 1 << 20, file);
    const TokenShard shard(file, ShardCheck::kFull);
    const Ids ids = shard_ids(shard);
    EXPECT_EQ(static_cast<std::int64_t>(ids.size()), written);
    const std::set<std::int64_t> held_out = targets(corpus.held_out);
    EXPECT_EQ(std::set<std::int64_t>(ids.begin(), ids.end()), held_out);
    for (const std::int64_t id : targets(corpus.train)) {
      EXPECT_FALSE(held_out.contains(id)) << id;
    }
    EXPECT_GT(shard.info().documents, 8);
  }
}

TEST_F(HeldOutShard, EndsAtTheAskedNumber) {
  const CorpusSplit corpus = split(counting_documents(200, 20), 0.2);
  EXPECT_EQ(write_held_out(corpus, encoder, 37, file), 37);
  EXPECT_EQ(TokenShard(file).info().tokens, 37);
}

TEST_F(HeldOutShard, NothingHeldOutIsAnError) {
  EXPECT_THROW(write_held_out(split(counting_documents(10, 20), 0), encoder, 9, file), Error);
  EXPECT_FALSE(std::filesystem::exists(file));
}

}  // namespace
}  // namespace darkformer::held_out_shard_test
