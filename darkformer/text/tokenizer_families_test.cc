// Difficult texts and the ids that Hugging Face and SentencePiece give them in each family.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <unordered_map>

#include "darkformer/base/json.h"
#include "darkformer/text/tokenizer.h"
#include "darkformer/text/utf8.h"

namespace darkformer::tokenizer_families_test {
namespace {

using Ids = std::vector<std::int32_t>;

// tests/golden/README.md tells how the files were made; their vocabularies are cut down, `old_ids`
// are the ids of the full ones.
Json golden_file(const std::string& name) {
  return read_json(std::string(DARKFORMER_GOLDEN "/tokenizer/") + name + ".json");
}

std::string text_of(const Json& test) {
  if (test.contains("text")) {
    return test.at("text").get<std::string>();
  }
  const auto hex = test.at("hex").get<std::string>();
  std::string text;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    text += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return text;
}

Ids old_ids(const Ids& ids, const Json& golden) {
  Ids old;
  std::transform(ids.begin(), ids.end(), std::back_inserter(old), [&](std::int32_t id) {
    return golden.at("old_ids").at(static_cast<std::size_t>(id)).get<std::int32_t>();
  });
  return old;
}

void expect_cases(const Tokenizer& tokenizer, const Json& cases, const Json& golden) {
  for (const Json& test : cases) {
    const std::string text = text_of(test);
    const Ids ids = tokenizer.encode(text);
    EXPECT_EQ(old_ids(ids, golden), test.at("ids").get<Ids>()) << test;
    EXPECT_EQ(tokenizer.decode(ids), test.at("decoded").get<std::string>()) << test;
  }
}

class Family : public testing::TestWithParam<const char*> {};

TEST_P(Family, GivesTheIdsAndTextsOfHuggingFace) {
  const Json golden = golden_file(GetParam());
  ASSERT_GE(golden.at("cases").size(), 200U);
  const Tokenizer tokenizer = Tokenizer::from_json(golden.at("tokenizer").dump(), GetParam(), 0);
  expect_cases(tokenizer, golden.at("cases"), golden);
}

TEST_P(Family, OtherStepsGiveTheIdsOfHuggingFace) {
  const Json golden = golden_file(GetParam());
  for (const Json& variant : golden.at("variants")) {
    SCOPED_TRACE(variant.at("name"));
    Json document = golden.at("tokenizer");
    for (const auto& [key, value] : variant.at("patch").items()) {
      if (key == "added_tokens") {
        for (Json& token : document[key]) {
          token.update(value);
        }
      } else {
        document[key] = value;
      }
    }
    expect_cases(Tokenizer::from_json(document.dump(), GetParam(), 0), variant.at("cases"), golden);
  }
}

// The same pieces as SentencePiece keeps them; a score is the rank of the first merge.
TokenizerModel sentencepiece_model(const Json& document) {
  const Json& vocab = document.at("model").at("vocab");
  std::unordered_map<std::string, float> scores;
  for (const Json& merge : document.at("model").at("merges")) {
    auto text = merge.get<std::string>();
    text.erase(text.find(' '), 1);
    scores.emplace(text, -static_cast<float>(scores.size()));
  }
  TokenizerModel model;
  model.bos = "<s>";
  model.eos = "</s>";
  model.dummy_prefix = true;
  model.pieces.resize(vocab.size());
  for (const auto& [text, id] : vocab.items()) {
    Piece& piece = model.pieces[id.get<std::size_t>()];
    piece.text = text;
    const auto score = scores.find(text);
    piece.score = score != scores.end() ? score->second : -1e6F - id.get<float>();
    piece.type = text == "<unk>"                               ? PieceType::kUnknown
                 : text == "<s>" || text == "</s>"             ? PieceType::kControl
                 : text.starts_with("<0x") && text.size() == 6 ? PieceType::kByte
                                                               : PieceType::kNormal;
  }
  return model;
}

TEST_P(Family, AsAModelFileItGivesTheIdsOfSentencePiece) {
  const Json golden = golden_file(GetParam());
  if (golden.at("sentencepiece").empty()) {
    return;  // a byte-level vocabulary
  }
  const std::string bytes = serialize_tokenizer_model(sentencepiece_model(golden.at("tokenizer")));
  const Tokenizer tokenizer(parse_tokenizer_model(bytes, "a.model"), "a.model", 0);
  EXPECT_EQ(tokenizer.bos(), 1);
  EXPECT_EQ(tokenizer.eos(), 2);
  EXPECT_EQ(tokenizer.unk(), 0);
  expect_cases(tokenizer, golden.at("sentencepiece"), golden);
}

TEST_P(Family, StreamsTheTextThatItDecodes) {
  const Json golden = golden_file(GetParam());
  const Tokenizer tokenizer = Tokenizer::from_json(golden.at("tokenizer").dump(), GetParam(), 0);
  for (const Json& test : golden.at("cases")) {
    const Ids ids = tokenizer.encode(text_of(test));
    StreamDecoder stream(tokenizer);
    std::string joined;
    for (const std::int32_t id : ids) {
      const std::string part = stream.push(id);
      ASSERT_TRUE(is_utf8(part));
      joined += part;
    }
    EXPECT_EQ(joined + stream.finish(), tokenizer.decode(ids));
  }
}

TEST_P(Family, PlainTextHasNoControlPieces) {
  const Json golden = golden_file(GetParam());
  const Tokenizer tokenizer = Tokenizer::from_json(golden.at("tokenizer").dump(), GetParam(), 0);
  for (const Json& test : golden.at("cases")) {
    const std::string text = text_of(test);
    for (const std::int32_t id : tokenizer.encode_plain(text)) {
      EXPECT_NE(tokenizer.piece(id).type, PieceType::kControl) << text;
      EXPECT_NE(tokenizer.piece(id).type, PieceType::kUnknown) << text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Golden,
    Family,
    testing::Values("llama2", "mistral", "llama3", "qwen2_5", "qwen3", "mistral_nemo", "gemma4"),
    [](const auto& info) { return std::string(info.param); });

TEST(TokenizerFamilies, SpecialPiecesAreTheFamilies) {
  const auto load = [](const std::string& name, const TokenizerSettings& settings = {}) {
    return Tokenizer::from_json(golden_file(name).at("tokenizer").dump(), name, 0, settings);
  };
  const auto name = [](const Tokenizer& tokenizer, std::int32_t id) {
    return id < 0 ? "none" : tokenizer.piece(id).text;
  };
  const Tokenizer llama2 = load("llama2");
  EXPECT_EQ(name(llama2, llama2.bos()), "<s>");
  EXPECT_EQ(name(llama2, llama2.eos()), "</s>");
  const Tokenizer llama3 = load("llama3");
  EXPECT_EQ(name(llama3, llama3.bos()), "<|begin_of_text|>");
  EXPECT_EQ(name(llama3, llama3.eos()), "<|end_of_text|>");
  EXPECT_EQ(name(llama3, llama3.end_of_turn()), "<|eot_id|>");
  const Tokenizer qwen = load("qwen2_5", {.bos = {},
                                          .eos = "<|im_end|>",
                                          .pad = "<|endoftext|>",
                                          .add_bos = false,
                                          .chat_template = {}});
  EXPECT_EQ(qwen.bos(), -1);
  EXPECT_EQ(name(qwen, qwen.eos()), "<|im_end|>");
  EXPECT_EQ(name(qwen, qwen.pad()), "<|endoftext|>");
  EXPECT_EQ(qwen.unk(), -1);
  EXPECT_EQ(load("qwen3").bos(), -1);
  const Tokenizer nemo = load("mistral_nemo");
  EXPECT_EQ(name(nemo, nemo.bos()), "<s>");
  const Tokenizer gemma = load("gemma4");
  EXPECT_EQ(name(gemma, gemma.bos()), "<bos>");
  EXPECT_EQ(name(gemma, gemma.end_of_turn()), "<turn|>");
}

// A space that encode() put before a text is taken away at its start alone.
TEST(TokenizerFamilies, TextThatGoesOnKeepsItsSpace) {
  const Json golden = golden_file("llama2");
  const Tokenizer tokenizer = Tokenizer::from_json(golden.at("tokenizer").dump(), "llama2", 0);
  const Ids ids = tokenizer.encode("world");
  ASSERT_EQ(tokenizer.piece(ids.front()).text, "\xE2\x96\x81world");
  EXPECT_EQ(tokenizer.decode(ids), "world");
  StreamDecoder stream(tokenizer, true);
  EXPECT_EQ(stream.push(ids.front()), " world");
  EXPECT_EQ(tokenizer.encode_more(" world"), ids);
  EXPECT_NE(tokenizer.encode(" world"), ids);
  for (const char* scheme : {"always", "first"}) {
    Json document = golden.at("tokenizer");
    document["normalizer"] = nullptr;
    document["pre_tokenizer"] = {
        {"type", "Metaspace"}, {"replacement", "\xE2\x96\x81"}, {"prepend_scheme", scheme}};
    const Tokenizer metaspace = Tokenizer::from_json(document.dump(), scheme, 0);
    EXPECT_EQ(metaspace.encode("world"), ids) << scheme;
    EXPECT_EQ(metaspace.encode_more(" world"), ids) << scheme;
    EXPECT_NE(metaspace.encode_more("world"), ids) << scheme;
  }
}

}  // namespace
}  // namespace darkformer::tokenizer_families_test
