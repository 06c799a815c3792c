// Token shards: round trip in both widths, and every way a file can be wrong.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/token_shard.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "darkformer/base/scratch_folder.h"
#include "darkformer/text/test_files.h"
#include "darkformer/text/test_shards.h"

namespace darkformer::token_shard_test {
namespace {

class TokenShardTest : public testing::Test {
 protected:
  // The error of opening a file with these bytes; empty if it opens.
  std::string open_error(const std::string& bytes, ShardCheck check) const {
    write_bytes(path_, bytes);
    return error_of([&] { TokenShard(path_, check); });
  }
  std::string small_shard() const {
    make_shard(path_, {{10, 11, 12}, {13}, {14, 15}});
    return read_bytes(path_);
  }
  ScratchFolder folder_;
  std::filesystem::path path_ = folder_.path() / "a.tokens";
};

TEST_F(TokenShardTest, RoundTripInBothWidths) {
  for (const std::int32_t vocabulary : {259, 65536, 65537, 262144}) {
    const std::int32_t last = vocabulary - 1;
    for (const std::int32_t extra : {0, 1, 2, 3}) {
      std::vector<std::int32_t> third(static_cast<std::size_t>(1 + extra), last);
      const auto shard = make_shard(path_, {{0, last, 5}, {7}, third}, byte_encoder(vocabulary));
      const ShardInfo& info = shard->info();
      EXPECT_EQ(info.vocabulary, vocabulary);
      EXPECT_EQ(info.tokens, 5 + extra);
      EXPECT_EQ(info.documents, 3);
      EXPECT_EQ(info.bos, 2);
      EXPECT_EQ(info.eos, 1);
      EXPECT_EQ(info.tokenizer, 77U);
      Ids expected = {0, last, 5, 7};
      expected.insert(expected.end(), third.begin(), third.end());
      EXPECT_EQ(shard_ids(*shard), expected);
      EXPECT_EQ(shard->document_begin(0), 0);
      EXPECT_EQ(shard->document_end(0), 3);
      EXPECT_EQ(shard->document_begin(1), 3);
      EXPECT_EQ(shard->document_end(2), 5 + extra);
      const std::size_t width = vocabulary <= 65536 ? 2 : 4;
      const std::size_t ids = (expected.size() * width + 7) / 8 * 8;
      EXPECT_EQ(std::filesystem::file_size(path_), 128 + ids + 3 * 16);
    }
  }
}

TEST_F(TokenShardTest, ADocumentMayComeInPieces) {
  const auto whole = make_shard(folder_.path() / "whole", {{5, 6, 7}, {8}});
  TokenShardWriter writer(path_, byte_encoder(), 0);
  writer.end_document();  // nothing yet: no document
  writer.append(std::vector<std::int32_t>{5, 6});
  writer.append({});
  writer.append(std::vector<std::int32_t>{7});
  writer.end_document();
  writer.end_document();
  writer.append(std::vector<std::int32_t>{8});
  writer.commit();
  EXPECT_EQ(read_bytes(path_), read_bytes(folder_.path() / "whole"));
}

TEST_F(TokenShardTest, TheHashOfADocumentIsThatOfItsIds) {
  const auto narrow = make_shard(path_, {{5, 6}, {7}, {5, 6}, {6, 5}});
  const auto wide = make_shard(folder_.path() / "wide", {{7}, {5, 6}}, byte_encoder(100000));
  EXPECT_EQ(narrow->document_hash(0), narrow->document_hash(2));
  EXPECT_NE(narrow->document_hash(0), narrow->document_hash(3));
  EXPECT_EQ(narrow->document_hash(0), wide->document_hash(1));
  EXPECT_EQ(narrow->document_hash(1), wide->document_hash(0));
}

TEST_F(TokenShardTest, AnEmptyShard) {
  const auto shard = make_shard(path_, {});
  EXPECT_EQ(shard->info().tokens, 0);
  EXPECT_EQ(shard->info().documents, 0);
}

TEST_F(TokenShardTest, LargeShardsPassTheBuffer) {
  std::vector<std::vector<std::int32_t>> documents;
  Ids expected;
  for (std::int32_t d = 0; d < 3000; ++d) {
    documents.emplace_back(static_cast<std::size_t>(1 + d % 700), d % 259);
    expected.insert(expected.end(), documents.back().begin(), documents.back().end());
  }
  EXPECT_EQ(shard_ids(*make_shard(path_, documents)), expected);
}

TEST_F(TokenShardTest, NothingAppearsWithoutCommit) {
  {
    TokenShardWriter writer(path_, byte_encoder(), 0);
    writer.append(std::vector<std::int32_t>{5, 6});
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(TokenShardTest, IdsOutsideTheVocabularyAreErrors) {
  TokenShardWriter writer(path_, byte_encoder(), 0);
  EXPECT_TRUE(
      contains(error_of([&] { writer.append(std::vector<std::int32_t>{259}); }), "gave id 259"));
  EXPECT_TRUE(
      contains(error_of([&] { writer.append(std::vector<std::int32_t>{-1}); }), "gave id -1"));
  EXPECT_TRUE(contains(
      error_of([&] { TokenShardWriter(folder_.path() / "b", byte_encoder(2), 0); }), "BOS 2"));
}

TEST_F(TokenShardTest, CutShortAtEveryByte) {
  const std::string whole = small_shard();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string message = open_error(whole.substr(0, size), ShardCheck::kFast);
    EXPECT_TRUE(contains(message, size < 8 ? "not a token shard" : "cut short"))
        << size << " bytes";
    EXPECT_TRUE(contains(message, "a.tokens: "));
  }
  EXPECT_TRUE(contains(open_error(whole + "x", ShardCheck::kFast), "1 byte too many"));
}

TEST_F(TokenShardTest, AFlippedBitInAnyByteIsFound) {
  const std::string whole = small_shard();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string bytes = whole;
    bytes[i] ^= static_cast<char>(1 << i % 8);
    EXPECT_NE(open_error(bytes, ShardCheck::kFull), "") << "byte " << i;
    EXPECT_TRUE(i >= 128 || error_of([&] { TokenShard(path_, ShardCheck::kFast); }) != "")
        << "byte " << i << " of the header";
  }
}

TEST_F(TokenShardTest, EachFaultHasItsMessage) {
  const std::string whole = small_shard();
  const auto changed = [&](std::size_t offset, char value) {
    std::string bytes = whole;
    bytes[offset] = value;
    return open_error(bytes, ShardCheck::kFull);
  };
  EXPECT_TRUE(contains(changed(0, 'X'), "not a token shard"));
  EXPECT_TRUE(contains(changed(8, 9), "version 9, this program reads version 1"));
  EXPECT_TRUE(contains(changed(33, 9), "checksum of the header"));
  EXPECT_TRUE(contains(changed(128, 9), "checksum of the tokens"));
  EXPECT_TRUE(contains(changed(144, 0), "document table")) << "the first end becomes 0";
  EXPECT_TRUE(contains(error_of([&] { TokenShard(folder_.path() / "none"); }), "cannot be opened"));
}

TEST_F(TokenShardTest, ABadIdIsFoundWhenRead) {
  std::string bytes = small_shard();
  bytes[129] = '\xFF';  // the high byte of the first id
  write_bytes(path_, bytes);
  const TokenShard shard(path_);
  Ids ids(6);
  EXPECT_TRUE(contains(error_of([&] { shard.copy(0, 6, ids.data()); }), "outside the vocabulary"));
  EXPECT_EQ(error_of([&] { shard.copy(1, 5, ids.data()); }), "");
}

// A header whose checksum is right but whose numbers are not: made on purpose.
TEST_F(TokenShardTest, AForgedHeaderLeadsNowhere) {
  const std::string whole = small_shard();
  const auto forged = [&](std::size_t offset, std::uint64_t value) {
    std::string bytes = whole;
    bytes.replace(offset, 8, reinterpret_cast<const char*>(&value), 8);
    const std::uint64_t sum = checksum(std::string_view(bytes).substr(0, 120));
    bytes.replace(120, 8, reinterpret_cast<const char*>(&sum), 8);
    return open_error(bytes, ShardCheck::kFast);
  };
  for (const std::uint64_t count :
       {std::uint64_t{1} << 63, ~std::uint64_t{0}, std::uint64_t{1} << 60}) {
    EXPECT_TRUE(contains(forged(32, count), "contradicts itself"));
    EXPECT_TRUE(contains(forged(40, count), "contradicts itself"));
  }
  EXPECT_TRUE(contains(forged(32, 1000), "cut short"));
  EXPECT_TRUE(contains(forged(12, 3), "contradicts itself"));
}

TEST_F(TokenShardTest, AnotherTokenizer) {
  const auto shard = make_shard(path_, {{5}});
  EXPECT_EQ(error_of([&] { shard->require_tokenizer(77); }), "");
  EXPECT_TRUE(
      contains(error_of([&] { shard->require_tokenizer(78); }),
               "a.tokens: made with tokenizer 000000000000004d, but this model has tokenizer "
               "000000000000004e"));
}

TEST_F(TokenShardTest, KnowsItsOwnFiles) {
  small_shard();
  EXPECT_TRUE(is_token_shard(path_));
  write_bytes(path_, "DARKTOK");
  EXPECT_FALSE(is_token_shard(path_));
  EXPECT_FALSE(is_token_shard(folder_.path()));
  EXPECT_FALSE(is_token_shard(folder_.path() / "none"));
}

}  // namespace
}  // namespace darkformer::token_shard_test
