// A real tokenizer in the data path: pieces of a text have the tokens of the whole.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/token_encoder.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "darkformer/base/scratch_folder.h"
#include "darkformer/text/test_files.h"
#include "darkformer/text/test_shards.h"
#include "darkformer/text/tokenize.h"
#include "darkformer/text/tokenizer.h"
#include "darkformer/text/tokenizer_samples.h"

namespace darkformer::token_encoder_test {
namespace {

Tokenizer sample_tokenizer() {
  return {sample_model(), "sample", 4711};
}

// Text of which any run of line ends may become the end of a piece.
std::string long_text(std::size_t size) {
  std::mt19937 random(7);
  std::string text;
  while (text.size() < size) {
    std::string part = random_text(random);
    std::erase(part, '\r');  // CRLF is LF to the reader
    text += part + std::string(1 + random() % 40, '\n');
  }
  return text;
}

TEST(TokenEncoder, KnowsItsTokenizer) {
  const Tokenizer tokenizer = sample_tokenizer();
  const TokenEncoder encoder = token_encoder(tokenizer);
  EXPECT_EQ(encoder.bos, 2);
  EXPECT_EQ(encoder.eos, 1);
  EXPECT_EQ(encoder.vocabulary, tokenizer.size());
  EXPECT_EQ(encoder.fingerprint, 4711U);
  EXPECT_EQ(encoder.encode("the cost"), tokenizer.encode("the cost"));
}

TEST(TokenEncoder, PiecesHaveTheTokensOfTheWhole) {
  const ScratchFolder folder;
  const std::string text = long_text(400000);
  const std::filesystem::path file = folder.path() / "a.txt";
  write_bytes(file, text);
  TokenizeOptions options;
  options.reader.piece_bytes = 1;  // as small as the reads allow
  const TokenEncoder encoder = token_encoder(sample_tokenizer());
  tokenize_file(file, folder.path() / "a.tokens", encoder, options);
  const std::vector<std::int32_t> whole = encoder.encode(text);
  EXPECT_EQ(shard_ids(TokenShard(folder.path() / "a.tokens")), Ids(whole.begin(), whole.end()));
}

// A family that begins texts with a space of its own does so once for a document.
TEST(TokenEncoder, PiecesOfADocumentHaveOneSpaceInFront) {
  const ScratchFolder folder;
  const std::string text = long_text(200000);
  const std::filesystem::path file = folder.path() / "a.txt";
  write_bytes(file, text);
  TokenizerModel model = sample_model();
  model.dummy_prefix = true;
  TokenizeOptions options;
  options.reader.piece_bytes = 1;
  const TokenEncoder encoder = token_encoder(Tokenizer(model, "sample", 1));
  tokenize_file(file, folder.path() / "a.tokens", encoder, options);
  const std::vector<std::int32_t> whole = encoder.encode(text);
  EXPECT_NE(whole, sample_tokenizer().encode(text));
  EXPECT_EQ(shard_ids(TokenShard(folder.path() / "a.tokens")), Ids(whole.begin(), whole.end()));
}

TEST(TokenEncoder, EveryRunOfLineEndsIsAPlaceToCut) {
  const TokenEncoder encoder = token_encoder(sample_tokenizer());
  const std::string text = long_text(20000);
  std::vector<std::int32_t> joined;
  std::size_t begin = 0;
  for (std::size_t i = 1; i <= text.size(); ++i) {
    if (i == text.size() || (text[i - 1] == '\n' && text[i] != '\n')) {
      const auto ids = encoder.encode(std::string_view(text).substr(begin, i - begin));
      joined.insert(joined.end(), ids.begin(), ids.end());
      begin = i;
    }
  }
  EXPECT_EQ(joined, encoder.encode(text));
}

}  // namespace
}  // namespace darkformer::token_encoder_test
