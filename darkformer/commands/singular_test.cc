// What there is one of is said in the singular, on standard output and on standard error.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/scratch_folder.h"
#include "darkformer/commands/program_testing.h"

namespace darkformer::singular_test {
namespace {

using Words = std::vector<std::string>;

class Singular : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (scratch_.path() / name).string(); }

  // All that the call says, as a user sees it.
  std::string said(const Words& words, int code = kExitDone) const {
    ::testing::internal::CaptureStderr();
    const Outcome outcome = run(words);
    const std::string all = outcome.out + outcome.errors + ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(outcome.code, code) << all;
    return all;
  }

  void expect(const std::string& text, const std::string& singular) const {
    EXPECT_NE(text.find(singular), std::string::npos) << text;
    const ::testing::Matcher<const std::string&> has_plural = ::testing::ContainsRegex(
        "(^|[^0-9./e-])1 (texts|tokens|sinks|bytes|steps|layers|features|keys|heads|windows|"
        "positions|documents|lines|entries|pieces|values|ranks|jobs|spikes|parameters)($|[^a-z])");
    EXPECT_FALSE(has_plural.Matches(text)) << text;
  }

  ScratchFolder scratch_;
  const std::string model_ = golden_folder("gemma1").string();
};

TEST_F(Singular, OneTextOfOneToken) {
  expect(said({"sample", model_, "--tokens", "1", "--out", path("a.jsonl")}),
         ": 1 text, 1 token, ");
}

TEST_F(Singular, OneFeatureAndOneSink) {
  const std::string out = path("converted");
  expect(said({"convert", model_, "--attention", "performer", "--features", "1", "--window", "2",
               "--sinks", "1", "--out", out}),
         "1 feature, ");
  expect(said({"info", out}), "1 sink");
}

TEST_F(Singular, OneStepOfTraining) {
  std::string words;
  for (int i = 0; i < 200; ++i) {
    words += "a b c d e f g ";
  }
  write_bytes(path("text.txt"), words);
  expect(said({"finetune", model_, "--data", path("text.txt"), "--context", "16", "--batch", "1",
               "--steps", "1", "--cache", path("cache"), "--out", path("run")}),
         "1 step, ");
}

TEST_F(Singular, OneTokenOfGeneration) {
  expect(said({"generate", model_, "--ids", "5", "-n", "1", "--stats"}), "decode  1 token, ");
  expect(said({"logits", model_, "--ids", "5", "--out", path("logits")}), "logits of 1 token\n");
}

TEST_F(Singular, OneByteOfWeights) {
  const std::filesystem::path folder = path("model");
  std::filesystem::copy(golden_folder("gemma1"), folder);
  write_bytes(folder / "model.safetensors", "x");
  expect(said({"info", folder.string()}, kExitFailed), "cut short: 1 byte");
}

TEST_F(Singular, OneEntryForTheLayers) {
  const std::filesystem::path folder = path("model");
  std::filesystem::copy(golden_folder("gemma2"), folder);
  Json config = read_json(folder / "config.json");
  config["layer_types"] = {"full_attention"};
  write_bytes(folder / "config.json", config.dump());
  expect(said({"info", folder.string()}, kExitFailed), "\"layer_types\" has 1 entry for ");
}

}  // namespace
}  // namespace darkformer::singular_test
