// SentencePiece itself as the judge: the same file must give the same ids and the same text.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sentencepiece_processor.h>

#include "darkformer/text/tokenizer.h"
#include "darkformer/text/tokenizer_samples.h"

namespace darkformer::tokenizer_sentencepiece_test {
namespace {

using Ids = std::vector<std::int32_t>;

struct Both {
  Tokenizer ours;
  sentencepiece::SentencePieceProcessor theirs;

  explicit Both(const TokenizerModel& model) : ours(model, "sample", 0) {
    const auto status = theirs.LoadFromSerializedProto(serialize_tokenizer_model(model));
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  void expect_same(const std::string& text) const {
    Ids ids;
    ASSERT_TRUE(theirs.Encode(text, &ids).ok());
    ASSERT_EQ(ours.encode(text), ids) << text;
    expect_same_text(ids);
  }
  void expect_same_text(const Ids& ids) const {
    std::string text;
    ASSERT_TRUE(theirs.Decode(ids, &text).ok());
    ASSERT_EQ(ours.decode(ids), text);
  }
};

TEST(SentencePieceJudge, SpecialIds) {
  const Both both(sample_model());
  EXPECT_EQ(both.theirs.bos_id(), both.ours.bos());
  EXPECT_EQ(both.theirs.eos_id(), both.ours.eos());
  EXPECT_EQ(both.theirs.pad_id(), both.ours.pad());
  EXPECT_EQ(both.theirs.unk_id(), both.ours.unk());
}

TEST(SentencePieceJudge, RandomTextAndRandomIds) {
  const Both both(sample_model());
  both.expect_same(sample_text());
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i) {
    both.expect_same(random_text(random, true));
    Ids ids(random() % 20);
    std::generate(ids.begin(), ids.end(), [&] { return static_cast<int>(random() % 420); });
    both.expect_same_text(ids);
  }
}

TEST(SentencePieceJudge, InvalidUtf8) {
  const Both both(sample_model());
  std::mt19937 random(8);
  for (int i = 0; i < 2000; ++i) {
    std::string text = random_text(random, true) + "the";
    for (int j = 0; j < 3; ++j) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    both.expect_same(text);
  }
}

// Pieces with an inner space (Gemma 3 has one), unused pieces that are split again, equal scores.
TEST(SentencePieceJudge, RarePieces) {
  TokenizerModel model = sample_model();
  std::mt19937 random(9);
  const std::string space = "\xE2\x96\x81";
  model.pieces.push_back({"e" + space, -1, PieceType::kNormal});
  model.pieces.push_back({"e" + space + "t", -2, PieceType::kNormal});
  model.pieces.push_back({";" + space + "t", -3, PieceType::kNormal});
  for (Piece& piece : model.pieces) {
    if (piece.type == PieceType::kNormal && random() % 8 == 0 && piece.text.size() > 3) {
      piece.type = PieceType::kUnused;
    } else if (piece.type == PieceType::kNormal && random() % 4 == 0) {
      piece.score = -300;
    }
  }
  const Both both(model);
  both.expect_same(sample_text());
  for (int i = 0; i < 2000; ++i) {
    both.expect_same(random_text(random, true));
  }
}

// As Llama 2 does it: a space before the text, and away again.
TEST(SentencePieceJudge, WithDummyPrefix) {
  TokenizerModel model = sample_model();
  model.dummy_prefix = true;
  const Both both(model);
  both.expect_same("");
  both.expect_same(sample_text());
  std::mt19937 random(12);
  for (int i = 0; i < 3000; ++i) {
    both.expect_same(random_text(random, true));
    Ids ids(random() % 20);
    std::generate(ids.begin(), ids.end(), [&] { return static_cast<int>(random() % 420); });
    both.expect_same_text(ids);
  }
}

TEST(SentencePieceJudge, WithoutByteFallback) {
  TokenizerModel model = sample_model();
  model.byte_fallback = false;
  for (Piece& piece : model.pieces) {
    piece.type = piece.type == PieceType::kByte ? PieceType::kNormal : piece.type;
  }
  const Both both(model);
  std::mt19937 random(10);
  for (int i = 0; i < 2000; ++i) {
    both.expect_same(random_text(random, true));
  }
}

}  // namespace
}  // namespace darkformer::tokenizer_sentencepiece_test
