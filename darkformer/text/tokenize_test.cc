// Tokenising: ids and documents, thread count, cache, progress, interrupts, errors.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/tokenize.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "darkformer/base/atomic_file.h"
#include "darkformer/base/read_file.h"
#include "darkformer/base/scratch_folder.h"
#include "darkformer/base/threads.h"
#include "darkformer/text/test_files.h"
#include "darkformer/text/test_shards.h"

namespace darkformer::tokenize_test {
namespace {

namespace fs = std::filesystem;

class TokenizeTest : public testing::Test {
 protected:
  fs::path put(const std::string& name, const std::string& bytes) const {
    write_bytes(folder_.path() / name, bytes);
    return folder_.path() / name;
  }
  // The byte encoder, with a count of its calls.
  TokenEncoder counting_encoder(std::uint64_t fingerprint = 77) {
    TokenEncoder encoder = byte_encoder(259, fingerprint);
    encoder.encode = [this, encode = encoder.encode](std::string_view text) {
      ++calls_;
      return encode(text);
    };
    return encoder;
  }
  ScratchFolder folder_;
  fs::path cache_ = folder_.path() / "cache";
  std::atomic<int> calls_ = 0;
};

std::string text_of(const TokenShard& shard, std::int64_t d) {
  Ids ids(static_cast<std::size_t>(shard.document_end(d) - shard.document_begin(d)));
  shard.copy(shard.document_begin(d), static_cast<std::int64_t>(ids.size()), ids.data());
  std::string text;
  for (const std::int64_t id : ids) {
    text += static_cast<char>(id - 3);
  }
  return text;
}

std::string json_lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += "{\"text\":\"" +
            std::string(static_cast<std::size_t>(1 + i % 500), static_cast<char>('a' + i % 26)) +
            "\"}\n";
  }
  return text;
}

TEST_F(TokenizeTest, DocumentsBecomeTokens) {
  const fs::path text =
      put("a.jsonl", "{\"text\":\"one\"}\n{\"text\":\"\"}\nbroken\n{\"text\":\"two\"}\n");
  const ShardInfo info = tokenize_file(text, folder_.path() / "a.tokens", byte_encoder());
  const TokenShard shard(folder_.path() / "a.tokens", ShardCheck::kFull);
  EXPECT_EQ(info.documents, 2);
  EXPECT_EQ(shard.info().tokens, 6);
  EXPECT_EQ(shard.info().lines, 4);
  EXPECT_EQ(shard.info().broken_lines, 1);
  EXPECT_EQ(shard.info().source_key, source_key(text, byte_encoder(), {}));
  EXPECT_EQ(text_of(shard, 0), "one");
  EXPECT_EQ(text_of(shard, 1), "two");
}

TEST_F(TokenizeTest, ALargeTextInPiecesIsOneDocument) {
  std::string text;
  while (text.size() < 9000000) {
    text += "One line of many, number " + std::to_string(text.size()) + "\n";
  }
  tokenize_file(put("a.txt.gz", gzip(text)), folder_.path() / "a.tokens", byte_encoder());
  const TokenShard shard(folder_.path() / "a.tokens", ShardCheck::kFull);
  ASSERT_EQ(shard.info().documents, 1);
  EXPECT_EQ(text_of(shard, 0), text);
}

TEST_F(TokenizeTest, ThreadsDoNotChangeTheShard) {
  const fs::path text = put("a.jsonl", json_lines(20000));
  set_threads(1);
  tokenize_file(text, folder_.path() / "one", byte_encoder());
  set_threads(3);
  tokenize_file(text, folder_.path() / "three", byte_encoder());
  EXPECT_EQ(read_bytes(folder_.path() / "one"), read_bytes(folder_.path() / "three"));
}

TEST_F(TokenizeTest, TheSameTextIsTokenisedOnce) {
  const fs::path first =
      tokenize_cached(put("a.jsonl", json_lines(50)), cache_, counting_encoder());
  EXPECT_EQ(calls_, 50);
  EXPECT_EQ(tokenize_cached(folder_.path() / "a.jsonl", cache_, counting_encoder()), first);
  EXPECT_EQ(tokenize_cached(put("renamed.jsonl", json_lines(50)), cache_, counting_encoder()),
            first);
  EXPECT_EQ(calls_, 50) << "nothing was done again";
}

TEST_F(TokenizeTest, AShardThatAnotherProcessMakesIsAwaited) {
  const fs::path text = put("a.jsonl", json_lines(20));
  const fs::path shard = tokenize_cached(text, cache_, counting_encoder());
  const std::string bytes = read_file(shard);
  fs::remove(shard);
  calls_ = 0;
  TokenizeOptions options;
  std::atomic<int> rounds = 0;
  options.interrupted = [&] { return ++rounds, false; };
  {
    AtomicFile other(shard);
    std::thread waiting([&] { tokenize_cached(text, cache_, counting_encoder(), options); });
    while (rounds == 0) {
      std::this_thread::yield();
    }
    other.write(bytes);
    other.commit();
    waiting.join();
  }
  EXPECT_EQ(calls_, 0);
  EXPECT_EQ(read_file(shard), bytes);
}

TEST_F(TokenizeTest, AShardThatAnotherProcessGaveUpIsTakenOver) {
  const fs::path text = put("a.jsonl", json_lines(20));
  const fs::path shard = tokenize_cached(text, cache_, counting_encoder());
  const std::string bytes = read_file(shard);
  fs::remove(shard);
  calls_ = 0;
  std::optional<AtomicFile> other(std::in_place, shard);
  TokenizeOptions options;
  options.interrupted = [&] { return other.reset(), false; };
  EXPECT_EQ(tokenize_cached(text, cache_, counting_encoder(), options), shard);
  EXPECT_EQ(calls_, 20);
  EXPECT_EQ(read_file(shard), bytes);
}

TEST_F(TokenizeTest, WaitingEndsWithAnInterrupt) {
  const fs::path text = put("a.jsonl", json_lines(20));
  const fs::path shard = tokenize_cached(text, cache_, counting_encoder());
  fs::remove(shard);
  const AtomicFile other(shard);
  TokenizeOptions options;
  options.interrupted = [] { return true; };
  EXPECT_THROW(tokenize_cached(text, cache_, counting_encoder(), options), Interrupted);
}

TEST_F(TokenizeTest, WhateverChangesTheTokensChangesTheKey) {
  const fs::path text = put("a.txt", "{\"text\":\"x\"}\n");
  ReaderOptions options;
  const std::uint64_t key = source_key(text, byte_encoder(), options);
  EXPECT_NE(source_key(put("b.txt", "{\"text\":\"y\"}\n"), byte_encoder(), options), key);
  EXPECT_NE(source_key(put("a.jsonl", "{\"text\":\"x\"}\n"), byte_encoder(), options), key)
      << "format";
  EXPECT_NE(source_key(text, byte_encoder(259, 78), options), key) << "tokenizer";
  options.separator = "--";
  EXPECT_NE(source_key(text, byte_encoder(), options), key) << "separator";
  ReaderOptions field;
  field.text_field = "body";
  EXPECT_EQ(source_key(text, byte_encoder(), field), key) << "plain text has no fields";
  EXPECT_NE(source_key(folder_.path() / "a.jsonl", byte_encoder(), field),
            source_key(folder_.path() / "a.jsonl", byte_encoder(), {}));
}

TEST_F(TokenizeTest, AnUnsoundCacheEntryIsMadeAgain) {
  const fs::path text = put("a.jsonl", json_lines(50));
  const fs::path shard = tokenize_cached(text, cache_, counting_encoder());
  const std::string bytes = read_bytes(shard);
  write_bytes(shard, bytes.substr(0, bytes.size() - 1));
  tokenize_cached(text, cache_, counting_encoder());
  EXPECT_EQ(read_bytes(shard), bytes);
  write_bytes(shard, "something else");
  tokenize_cached(text, cache_, counting_encoder());
  EXPECT_EQ(read_bytes(shard), bytes);
  std::string flipped = bytes;
  flipped[200] ^= 1;
  write_bytes(shard, flipped);
  tokenize_cached(text, cache_, counting_encoder());
  EXPECT_EQ(read_bytes(shard), flipped) << "the fast check does not read the tokens";
  TokenizeOptions full;
  full.check = ShardCheck::kFull;
  tokenize_cached(text, cache_, counting_encoder(), full);
  EXPECT_EQ(read_bytes(shard), bytes);
  EXPECT_EQ(calls_, 200);
}

TEST_F(TokenizeTest, OpensShardsAndTexts) {
  make_shard(folder_.path() / "made.bin", {{10, 11}});
  const auto shards =
      open_shards({folder_.path() / "made.bin", put("b.txt", "text")}, cache_, byte_encoder());
  ASSERT_EQ(shards.size(), 2U);
  EXPECT_EQ(shard_ids(*shards[0]), (Ids{10, 11}));
  EXPECT_EQ(text_of(*shards[1], 0), "text");
  EXPECT_TRUE(contains(
      error_of([&] { open_shards({folder_.path() / "made.bin"}, cache_, byte_encoder(259, 5)); }),
      "made with tokenizer"));
}

TEST_F(TokenizeTest, ProgressRisesToTheWhole) {
  const fs::path text = put("a.jsonl", json_lines(40000));
  std::vector<TokenizeProgress> seen;
  TokenizeOptions options;
  options.progress = [&](const TokenizeProgress& progress) { seen.push_back(progress); };
  const ShardInfo info = tokenize_file(text, folder_.path() / "a.tokens", byte_encoder(), options);
  ASSERT_GE(seen.size(), 2U);
  for (std::size_t i = 1; i < seen.size(); ++i) {
    EXPECT_GT(seen[i].bytes_done, seen[i - 1].bytes_done);
    EXPECT_GT(seen[i].tokens, seen[i - 1].tokens);
  }
  EXPECT_EQ(seen.back().bytes_done, fs::file_size(text));
  EXPECT_EQ(seen.back().bytes_total, fs::file_size(text));
  EXPECT_EQ(seen.back().documents, info.documents);
  EXPECT_EQ(seen.back().tokens, info.tokens);
  EXPECT_EQ(seen.back().file, text.string());
}

TEST_F(TokenizeTest, AnInterruptLeavesNothing) {
  TokenizeOptions options;
  options.interrupted = [] { return true; };
  EXPECT_THROW(tokenize_cached(put("a.jsonl", json_lines(40000)), cache_, byte_encoder(), options),
               Interrupted);
  EXPECT_TRUE(fs::is_empty(cache_));
}

TEST_F(TokenizeTest, ErrorsLeaveNothing) {
  const auto error = [&](const fs::path& text, const TokenEncoder& encoder = byte_encoder()) {
    return error_of([&] { tokenize_cached(text, cache_, encoder); });
  };
  EXPECT_TRUE(contains(error(put("a.txt", "")), "a.txt: there is no text in it"));
  EXPECT_TRUE(contains(error(put("a.jsonl", "\n\n")), "a.jsonl: there is no text in it"));
  EXPECT_TRUE(
      contains(error(folder_.path() / "none.txt"), "none.txt: cannot be opened: No such file"));
  EXPECT_TRUE(contains(error(folder_.path()), "not a regular file"));
  const std::string packed = gzip(json_lines(1000));
  EXPECT_TRUE(
      contains(error(put("cut.json.gz", packed.substr(0, packed.size() / 2))), "cut short"));
  TokenEncoder failing = byte_encoder();
  failing.encode = [](std::string_view) -> std::vector<std::int32_t> { fail("the encoder fails"); };
  EXPECT_TRUE(contains(error(put("b.txt", "text"), failing), "the encoder fails"));
  EXPECT_TRUE(!fs::exists(cache_) || fs::is_empty(cache_));
}

}  // namespace
}  // namespace darkformer::tokenize_test
