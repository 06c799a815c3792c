// The packed stream and its stretches against the stream written out.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/packed_tokens.h"

#include <gtest/gtest.h>

#include "darkformer/base/scratch_folder.h"
#include "darkformer/text/test_files.h"
#include "darkformer/text/test_shards.h"

namespace darkformer::packed_tokens_test {
namespace {

Ids slice(const Ids& ids, std::int64_t begin, std::int64_t end) {
  return {ids.begin() + begin, ids.begin() + end};
}

// ids of [begin, end); starts must be set exactly where there is a BOS.
template <class Tokens>
Ids read(const Tokens& tokens, std::int64_t begin, std::int64_t end) {
  Ids ids(static_cast<std::size_t>(end - begin), -1);
  std::vector<std::uint8_t> starts(ids.size(), 9);
  tokens.copy(begin, end - begin, ids.data(), starts.data());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(starts[i], ids[i] == 2 ? 1 : 0);
  }
  return ids;
}

class PackedTokensTest : public testing::Test {
 protected:
  // The documents in three shards, the second of them empty.
  std::shared_ptr<const PackedTokens> pack(const Documents& documents) const {
    const auto half = documents.begin() + static_cast<std::ptrdiff_t>(documents.size() / 2);
    return std::make_shared<PackedTokens>(
        Shards{make_shard(folder_.path() / "a", {documents.begin(), half}),
               make_shard(folder_.path() / "b", {}),
               make_shard(folder_.path() / "c", {half, documents.end()})});
  }
  ScratchFolder folder_;
};

TEST_F(PackedTokensTest, EveryStretchOfASmallStream) {
  const Documents documents = make_documents(7, 6);
  const auto tokens = pack(documents);
  const Ids stream = packed(documents);
  ASSERT_EQ(tokens->size(), static_cast<std::int64_t>(stream.size()));
  EXPECT_EQ(tokens->documents(), 7);
  for (std::int64_t begin = 0; begin <= tokens->size(); ++begin) {
    for (std::int64_t end = begin; end <= tokens->size(); ++end) {
      ASSERT_EQ(read(*tokens, begin, end), slice(stream, begin, end)) << begin << " to " << end;
    }
  }
}

// Qwen's documents have no BOS: the first token of each is where it starts.
TEST_F(PackedTokensTest, WithoutBos) {
  TokenEncoder encoder = byte_encoder();
  encoder.bos = -1;
  const Documents documents = {{5, 6, 7}, {8}, {9, 10}};
  const PackedTokens tokens({make_shard(folder_.path() / "a", documents, encoder)});
  const Ids stream = {5, 6, 7, 1, 8, 1, 9, 10, 1};
  const std::vector<std::uint8_t> wanted = {1, 0, 0, 0, 1, 0, 1, 0, 0};
  ASSERT_EQ(tokens.size(), 9);
  EXPECT_EQ(tokens.document_begin(0, 2), 6);
  for (std::int64_t begin = 0; begin <= 9; ++begin) {
    for (std::int64_t end = begin; end <= 9; ++end) {
      Ids ids(static_cast<std::size_t>(end - begin), -1);
      std::vector<std::uint8_t> starts(ids.size(), 9);
      tokens.copy(begin, end - begin, ids.data(), starts.data());
      EXPECT_EQ(ids, slice(stream, begin, end));
      EXPECT_EQ(starts, std::vector<std::uint8_t>(wanted.begin() + begin, wanted.begin() + end));
    }
  }
}

TEST_F(PackedTokensTest, ManyDocuments) {
  const Documents documents = make_documents(1001, 97);
  const auto tokens = pack(documents);
  const Ids stream = packed(documents);
  EXPECT_EQ(read(*tokens, 0, tokens->size()), stream);
  for (std::int64_t begin = 0; begin + 50 < tokens->size(); begin += 37) {
    ASSERT_EQ(read(*tokens, begin, begin + 50), slice(stream, begin, begin + 50));
  }
}

TEST_F(PackedTokensTest, DocumentsBeginAtTheirBos) {
  const auto tokens = pack(make_documents(7, 6));
  EXPECT_EQ(tokens->document_begin(0, 0), 0);
  for (std::size_t shard : {0, 2}) {
    for (std::int64_t d = 0; d < tokens->shards()[shard]->info().documents; ++d) {
      const std::int64_t begin = tokens->document_begin(shard, d);
      EXPECT_EQ(read(*tokens, begin, begin + 1), Ids{2});
    }
  }
}

TEST_F(PackedTokensTest, Stretches) {
  const Documents documents = make_documents(7, 6);
  const auto tokens = pack(documents);
  const Ids stream = packed(documents);
  TokenStretches stretches(tokens);
  Ids expected;
  const std::int64_t size = tokens->size();
  const std::pair<std::int64_t, std::int64_t> parts[] = {
      {1, 4}, {4, 6}, {9, 9}, {10, 11}, {12, size - 3}, {size - 1, size}};
  for (const auto& [begin, end] : parts) {
    stretches.add(begin, end);
    const Ids part = slice(stream, begin, end);
    expected.insert(expected.end(), part.begin(), part.end());
  }
  EXPECT_EQ(stretches.stretches(), 4U) << "neighbours are joined, empty ones dropped";
  ASSERT_EQ(stretches.size(), static_cast<std::int64_t>(expected.size()));
  for (std::int64_t begin = 0; begin <= stretches.size(); ++begin) {
    for (std::int64_t end = begin; end <= stretches.size(); ++end) {
      ASSERT_EQ(read(stretches, begin, end), slice(expected, begin, end)) << begin << " to " << end;
    }
  }
}

TEST_F(PackedTokensTest, FingerprintsTellCorporaApart) {
  const auto a = make_shard(folder_.path() / "a", {{5, 6}, {7}});
  const auto b = make_shard(folder_.path() / "b", {{5}, {6, 7}});
  EXPECT_EQ(PackedTokens({a, b}).fingerprint(), PackedTokens({a, b}).fingerprint());
  EXPECT_NE(PackedTokens({a, b}).fingerprint(), PackedTokens({b, a}).fingerprint());
  EXPECT_NE(PackedTokens({a}).fingerprint(), PackedTokens({b}).fingerprint()) << "other boundaries";
}

TEST_F(PackedTokensTest, NoShardsOrMixedTokenizers) {
  const auto a = make_shard(folder_.path() / "a", {{5}});
  const auto b = make_shard(folder_.path() / "b", {{5}}, byte_encoder(259, 1));
  EXPECT_TRUE(contains(error_of([&] { PackedTokens({}); }), "no token shard"));
  EXPECT_TRUE(contains(error_of([&] { PackedTokens({a, b}); }), "made with tokenizer"));
}

}  // namespace
}  // namespace darkformer::packed_tokens_test
