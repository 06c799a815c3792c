// tokenizer.json against the tokenizer.model of the same vocabulary.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/text/tokenizer_json.h"

#include <gtest/gtest.h>

#include <functional>

#include "darkformer/base/atomic_file.h"
#include "darkformer/base/error.h"
#include "darkformer/base/json.h"
#include "darkformer/base/scratch_folder.h"
#include "darkformer/text/tokenizer.h"
#include "darkformer/text/tokenizer_samples.h"

namespace darkformer::tokenizer_json_test {
namespace {

// The sample vocabulary as Hugging Face would write it; every split of a piece into two pieces is a
// merge, in the order of the piece's ids.
Json sample_json() {
  const TokenizerModel model = sample_model();
  Json vocab = Json::object();
  Json added = Json::array();
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    vocab[model.pieces[id].text] = id;
    const PieceType type = model.pieces[id].type;
    if (type != PieceType::kNormal && type != PieceType::kByte) {
      added.push_back({{"id", id}, {"content", model.pieces[id].text}, {"special", id < 6}});
    }
  }
  Json merges = Json::array();
  for (const Piece& piece : model.pieces) {
    for (std::size_t at = 1; at < piece.text.size() && piece.type == PieceType::kNormal; ++at) {
      const std::string left = piece.text.substr(0, at);
      const std::string right = piece.text.substr(at);
      if (vocab.contains(left) && vocab.contains(right)) {
        merges.push_back(merges.size() % 2 == 0 ? Json(left + " " + right) : Json{left, right});
      }
    }
  }
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"normalizer",
           {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\xE2\x96\x81"}}},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"byte_fallback", true},
            {"vocab", vocab},
            {"merges", merges}}}};
}

Tokenizer from_json(const Json& json) {
  return {parse_tokenizer_json(json.dump(), "tokenizer.json"), "tokenizer.json", 0};
}

std::string error_after(const std::function<void(Json&)>& change) {
  Json json = sample_json();
  change(json);
  try {
    from_json(json);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(TokenizerJson, EncodesAsTheModelFileDoes) {
  const Tokenizer model(sample_model(), "sample", 0);
  const Tokenizer json = from_json(sample_json());
  ASSERT_EQ(json.size(), model.size());
  for (std::int32_t id = 0; id < json.size(); ++id) {
    EXPECT_EQ(json.piece(id).text, model.piece(id).text);
    EXPECT_EQ(json.piece(id).type, model.piece(id).type) << json.piece(id).text;
  }
  EXPECT_EQ(json.encode(sample_text()), model.encode(sample_text()));
  std::mt19937 random(5);
  for (int i = 0; i < 1000; ++i) {
    const std::string text = random_text(random, true);
    ASSERT_EQ(json.encode(text), model.encode(text));
  }
}

TEST(TokenizerJson, IsUsedWhereThereIsNoModelFile) {
  const ScratchFolder folder;
  write_file_atomically(folder.path() / "tokenizer.json", sample_json().dump());
  const Tokenizer json = Tokenizer::load(folder.path());
  EXPECT_EQ(json.size(), 420);
  write_file_atomically(folder.path() / "tokenizer.model",
                        serialize_tokenizer_model(sample_model(430)));
  EXPECT_EQ(Tokenizer::load(folder.path()).size(), 430);
}

TEST(TokenizerJson, TakesALiteralTabForItsByte) {
  const Tokenizer tokenizer = from_json([] {
    Json json = sample_json();
    Json& vocab = json["model"]["vocab"];
    vocab["\t"] = vocab["<0x09>"];
    vocab.erase("<0x09>");
    return json;
  }());
  const std::int32_t tab = tokenizer.find("<0x09>");
  EXPECT_EQ(tab, tokenizer.find("<0x08>") + 1);
  EXPECT_EQ(tokenizer.encode("\t"), std::vector<std::int32_t>{tab});
  EXPECT_EQ(tokenizer.decode(std::vector<std::int32_t>{tab}), "\t");
}

TEST(TokenizerJson, KeepsAddedTokensBeyondTheVocabulary) {
  Json json = sample_json();
  json["added_tokens"].push_back({{"id", 420}, {"content", "<tool>"}, {"special", true}});
  json["added_tokens"].push_back(
      {{"id", 421}, {"content", "<image_soft_token>"}, {"special", true}});
  const Tokenizer tokenizer = from_json(json);
  EXPECT_EQ(tokenizer.encode("<tool>"), std::vector<std::int32_t>{420});
  EXPECT_EQ(tokenizer.size(), 422);
  EXPECT_EQ(tokenizer.text_ids(), 421);  // text never asks for the image placeholder
  EXPECT_GT(tokenizer.encode("<image_soft_token>").size(), 1U);
}

TEST(TokenizerJson, RefusesWhatIsNotGemmas) {
  const auto model = [](Json& json) -> Json& { return json["model"]; };
  EXPECT_NE(error_after([&](Json& j) { model(j)["type"] = "Unigram"; }).find("Unigram"),
            std::string::npos);
  EXPECT_NE(error_after([&](Json& j) { model(j).erase("byte_fallback"); }).find("byte_fallback"),
            std::string::npos);
  EXPECT_NE(error_after([&](Json& j) { j["normalizer"] = nullptr; }).find("normalizer"),
            std::string::npos);
  EXPECT_NE(error_after([&](Json& j) { j.erase("model"); }).find("\"model\" is missing"),
            std::string::npos);
  EXPECT_NE(error_after([&](Json& j) { model(j)["vocab"] = 3; }).find("vocab"), std::string::npos);
  EXPECT_NE(error_after([&](Json& j) { model(j)["vocab"]["qqq"] = 1e9; }).find("whole number"),
            std::string::npos);
  EXPECT_NE(error_after([&](Json& j) { model(j)["vocab"]["qqq"] = 1000000000; }).find("absurd"),
            std::string::npos);
  EXPECT_NE(
      error_after([&](Json& j) { model(j)["vocab"]["qqq"] = 500; }).find("no piece with id 420"),
      std::string::npos);
  EXPECT_NE(error_after([&](Json& j) { model(j)["vocab"]["qq"] = 300; }).find("twice"),
            std::string::npos);
  EXPECT_NE(error_after([&](Json& j) { j["added_tokens"][0]["id"] = 7; }).find("two ids"),
            std::string::npos);
  EXPECT_NE(error_after([&](Json& j) { j["added_tokens"][0].erase("content"); }).find("content"),
            std::string::npos);
  EXPECT_NE(error_after([&](Json& j) { model(j)["merges"][0] = 3; }).find("not two pieces"),
            std::string::npos);
  EXPECT_NE(error_after([&](Json& j) { model(j)["merges"][0] = "x yz"; }).find("no piece"),
            std::string::npos);
  EXPECT_NE(error_after([&](Json& j) {
              Json& merges = model(j)["merges"];
              std::reverse(merges.begin(), merges.end());
            }).find("order of ids"),
            std::string::npos);
}

TEST(TokenizerJson, CutShortIsOneLineWithThePlace) {
  const std::string good = sample_json().dump();
  for (std::size_t size = 0; size < good.size(); size += 97) {
    try {
      parse_tokenizer_json(good.substr(0, size), "tokenizer.json");
      FAIL() << size;
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_TRUE(message.starts_with("tokenizer.json:1:")) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos);
    }
  }
  EXPECT_THROW(parse_tokenizer_json(std::string(1000000, '['), "tokenizer.json"), Error);
}

}  // namespace
}  // namespace darkformer::tokenizer_json_test
