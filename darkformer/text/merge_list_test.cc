// A general tokenizer.json by hand: its steps, and every way in which it can be wrong.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>

#include "darkformer/base/atomic_file.h"
#include "darkformer/base/error.h"
#include "darkformer/base/json.h"
#include "darkformer/base/scratch_folder.h"
#include "darkformer/text/byte_alphabet.h"
#include "darkformer/text/tokenizer.h"
#include "darkformer/text/tokenizer_samples.h"

namespace darkformer::merge_list_test {
namespace {

using Ids = std::vector<std::int32_t>;

// Bytes 0 to 255, then what the merges make, then two special pieces.
Json byte_level_json() {
  Json vocab = Json::object();
  for (unsigned byte = 0; byte < 256; ++byte) {
    vocab[byte_character(static_cast<unsigned char>(byte))] = byte;
  }
  const std::vector<std::string> made = {"th", "the", "\u0120the", "in", "ing"};
  for (const std::string& piece : made) {
    vocab[piece] = vocab.size();
  }
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", " ?\\p{L}+|\\s+(?!\\S)|\\s"}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  return {{"added_tokens",
           {{{"id", 261}, {"content", "<|a|>"}, {"special", true}},
            {{"id", 262}, {"content", "<|b|>"}, {"special", true}}}},
          {"normalizer", {{"type", "NFC"}}},
          {"pre_tokenizer",
           {{"type", "Sequence"},
            {"pretokenizers",
             {split, {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"post_processor", nullptr},
          {"model",
           {{"type", "BPE"},
            {"vocab", vocab},
            {"merges", {"t h", {"th", "e"}, "\u0120 the", "i n", "in g"}}}}};
}

Tokenizer load(const Json& json) {
  return Tokenizer::from_json(json.dump(), "tokenizer.json", 0);
}

std::string error_after(const std::function<void(Json&)>& change) {
  Json json = byte_level_json();
  change(json);
  try {
    load(json).encode("the thing");
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    EXPECT_TRUE(std::string(error.what()).starts_with("tokenizer.json:")) << error.what();
    return error.what();
  }
  return "no error";
}

void expect_error(const std::function<void(Json&)>& change, const std::string& wanted) {
  EXPECT_NE(error_after(change).find(wanted), std::string::npos)
      << error_after(change) << " without " << wanted;
}

TEST(MergeList, MergesBytes) {
  const Tokenizer tokenizer = load(byte_level_json());
  EXPECT_EQ(tokenizer.encode("the the"), (Ids{257, 258}));
  EXPECT_EQ(tokenizer.encode("thing"), (Ids{256, 260}));
  EXPECT_EQ(tokenizer.encode("e\u0301"), (Ids{0xC3, 0xA9}));  // NFC
  EXPECT_EQ(tokenizer.encode("the<|a|>the"), (Ids{257, 261, 257}));
  EXPECT_GT(tokenizer.encode_plain("the<|a|>the").size(), 3U);
  EXPECT_EQ(tokenizer.decode(Ids{258, 261, 0xC3, 0xA9, 0xC3, 'x'}), " the\u00e9\uFFFDx");
  EXPECT_EQ(tokenizer.decode(Ids{0xE2, 0x82}), "\uFFFD");  // one for each broken character
  EXPECT_EQ(tokenizer.text_ids(), 263);
}

TEST(MergeList, RoundTripsAnyText) {
  const Tokenizer tokenizer = load([] {
    Json json = byte_level_json();
    json["normalizer"] = nullptr;
    return json;
  }());
  std::mt19937 random(21);
  for (int i = 0; i < 2000; ++i) {
    const std::string text = random_text(random, true);
    ASSERT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

TEST(MergeList, WordsThatArePiecesNeedNoMerges) {
  Json json = byte_level_json();
  json["model"]["ignore_merges"] = true;
  json["model"]["merges"] = Json::array();
  EXPECT_EQ(load(json).encode("the ing"), (Ids{257, 32, 'i', 'n', 'g'}));
  EXPECT_EQ(load(json).encode("ing the"), (Ids{260, 258}));
}

TEST(MergeList, StepsThatAreNotKnownAreNamed) {
  expect_error([](Json& j) { j["normalizer"] = {{"type", "Lowercase"}}; }, "Lowercase");
  expect_error([](Json& j) { j["pre_tokenizer"] = {{"type", "Whitespace"}}; }, "Whitespace");
  expect_error([](Json& j) { j["decoder"] = {{"type", "WordPiece"}}; }, "WordPiece");
  expect_error([](Json& j) { j["decoder"] = {{"type", "ByteFallback"}}; }, "does not fit");
  expect_error([](Json& j) { j["pre_tokenizer"] = nullptr; }, "decoder is ByteLevel");
  expect_error(
      [](Json& j) {
        j["pre_tokenizer"] = nullptr;
        j["decoder"] = nullptr;
      },
      "byte_fallback");
  expect_error([](Json& j) { j["pre_tokenizer"]["pretokenizers"] = 3; }, "must be a list");
  expect_error(
      [](Json& j) {
        j["normalizer"] = {{"type", "Replace"}, {"content", ""}};
      },
      "\"pattern\" is missing");
  expect_error([](Json& j) { j["normalizer"] = "NFC"; }, "must be an object");
  expect_error([](Json& j) { j["model"]["dropout"] = 0.1; }, "dropout");
  expect_error([](Json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }, "end_of_word_suffix");
  expect_error([](Json& j) { j["model"]["type"] = "Unigram"; }, "Unigram");
}

TEST(MergeList, BadPatternsAreNamed) {
  const auto pattern = [](Json& json) -> Json& {
    return json["pre_tokenizer"]["pretokenizers"][0]["pattern"];
  };
  expect_error([&](Json& j) { pattern(j)["Regex"] = "(a"; }, "cannot be read");
  expect_error([&](Json& j) { pattern(j)["Regex"] = 7; }, "Regex");
  expect_error([&](Json& j) { pattern(j) = {{"String", ""}}; }, "by nothing");
  expect_error([&](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Odd"; }, "Odd");
  expect_error([&](Json& j) { pattern(j)["Regex"] = "(t|h|th?|(e| )*)*q"; }, "no error");
}

TEST(MergeList, VocabulariesThatMakeNoSenseAreRefused) {
  const auto vocab = [](Json& json) -> Json& { return json["model"]["vocab"]; };
  expect_error([&](Json& j) { j["model"]["merges"].push_back("q z"); }, "'qz', which is no piece");
  expect_error([&](Json& j) { j["model"]["merges"].push_back("t"); }, "not two pieces");
  expect_error([&](Json& j) { j["model"]["merges"].push_back(" t"); }, "not two pieces");
  expect_error([&](Json& j) { j["model"]["merges"].push_back(5); }, "not two pieces");
  expect_error([&](Json& j) { vocab(j)["q"] = 300; }, "no piece with id");
  expect_error([&](Json& j) { vocab(j)["qqq"] = 7; }, "used twice");
  expect_error([&](Json& j) { vocab(j)["qqq"] = 1LL << 40; }, "absurd");
  expect_error([&](Json& j) { vocab(j)["qqq"] = -1; }, "absurd");
  expect_error([&](Json& j) { vocab(j)["qqq"] = "1"; }, "whole number");
  expect_error([&](Json& j) { vocab(j)[""] = 263; }, "is empty");
  expect_error(
      [&](Json& j) {
        vocab(j).erase("q");
        vocab(j)["qq"] = 'q';
      },
      "for the byte 113");
  expect_error([&](Json& j) { j["added_tokens"][0]["id"] = 5; }, "used twice");
  expect_error([&](Json& j) { j["added_tokens"][0]["special"] = "yes"; }, "special");
  expect_error([&](Json& j) { j["added_tokens"] = {{"a", 1}}; }, "list");
  expect_error([&](Json& j) { j.erase("added_tokens"); }, "\"added_tokens\" is missing");
}

TEST(MergeList, CutShortIsOneLineWithThePlace) {
  const std::string good = byte_level_json().dump();
  for (std::size_t size = 0; size < good.size(); size += 41) {
    try {
      Tokenizer::from_json(good.substr(0, size), "tokenizer.json", 0);
      FAIL() << size;
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("tokenizer.json:1:")) << error.what();
    }
  }
}

TEST(MergeList, FolderTellsSpecialPiecesAndChat) {
  const ScratchFolder folder;
  const auto write = [&](const char* name, const Json& json) {
    write_file_atomically(folder.path() / name, json.dump());
  };
  write("tokenizer.json", byte_level_json());
  write("special_tokens_map.json", {{"eos_token", {{"content", "<|a|>"}}}});
  write("tokenizer_config.json",
        {{"bos_token", "<|b|>"}, {"add_bos_token", true}, {"pad_token", nullptr}});
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer.bos(), 262);
  EXPECT_EQ(tokenizer.eos(), 261);
  EXPECT_EQ(tokenizer.pad(), -1);
  EXPECT_THROW(tokenizer.encode_chat({}), Error);
  const ChatTurn turn{"user", "the"};
  write_file_atomically(folder.path() / "chat_template.jinja", "<|user|>");
  const Tokenizer chat = Tokenizer::load(folder.path());
  EXPECT_EQ(chat.end_of_turn(), 261);
  EXPECT_EQ(chat.encode_chat({&turn, 1}).front(), 262);
  write_file_atomically(folder.path() / "tokenizer_config.json", "{");
  EXPECT_THROW(Tokenizer::load(folder.path()), Error);
  write("tokenizer_config.json", {{"eos_token", 5}});
  EXPECT_THROW(Tokenizer::load(folder.path()), Error);
}

// A model file with a space in front is not Gemma's: its tokenizer.json may know more pieces.
TEST(MergeList, IsPreferredToAModelFileThatIsNotGemmas) {
  const ScratchFolder folder;
  TokenizerModel model = sample_model();
  write_file_atomically(folder.path() / "tokenizer.json", byte_level_json().dump());
  write_file_atomically(folder.path() / "tokenizer.model", serialize_tokenizer_model(model));
  EXPECT_EQ(Tokenizer::load(folder.path()).size(), 420);
  model.dummy_prefix = true;
  write_file_atomically(folder.path() / "tokenizer.model", serialize_tokenizer_model(model));
  EXPECT_EQ(Tokenizer::load(folder.path()).size(), 263);
  std::filesystem::remove(folder.path() / "tokenizer.json");
  EXPECT_EQ(Tokenizer::load(folder.path()).size(), 420);
}

}  // namespace
}  // namespace darkformer::merge_list_test
