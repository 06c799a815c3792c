// sample as a user runs it, what it leaves after a kill, and the commands that read a model's own
// text.
// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <sstream>

#include "darkformer/base/jsonl.h"
#include "darkformer/base/scratch_folder.h"
#include "darkformer/commands/program_testing.h"

namespace darkformer::sample_test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class Sample : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (scratch_.path() / name).string(); }

  // Sequences of at most 19 tokens, many enough for several rounds.
  Outcome sample(const std::string& out, const Words& more = {}) const {
    Words words = {"sample",    golden_folder("gemma1").string(),
                   "--tokens",  "500",
                   "--context", "20",
                   "--temp",    "2",
                   "--out",     path(out)};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }

  std::string whole(const std::string& out, const Words& more = {}) const {
    const Outcome outcome = sample(out, more);
    EXPECT_EQ(outcome.code, kExitDone) << outcome.errors;
    return read_bytes(path(out));
  }

  void expect_usage(const Outcome& outcome, const std::string& part) const {
    EXPECT_EQ(outcome.code, kExitUsage) << outcome.errors;
    EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1) << outcome.errors;
    EXPECT_NE(outcome.errors.find(part), std::string::npos) << outcome.errors;
  }

  // All sequences gathered, but no file: its name is taken while it is written.
  std::string gathered(const std::string& out) const {
    const fs::path obstacle = path("." + out + ".partial");
    fs::create_directories(obstacle / "x");
    EXPECT_EQ(sample(out).code, kExitFailed);
    fs::remove_all(obstacle);
    EXPECT_FALSE(fs::exists(path(out)));
    return read_bytes(path(out + ".partial/sequences.jsonl"));
  }

  ScratchFolder scratch_;
};

TEST_F(Sample, WritesTextsOfSoManyTokens) {
  const Outcome outcome = sample("a.jsonl", {"--json"});
  ASSERT_EQ(outcome.code, kExitDone) << outcome.errors;
  const Json result = outcome.json();
  const std::vector<Json> lines = read_jsonl(path("a.jsonl"));
  EXPECT_EQ(result["tokens"], 500);
  EXPECT_EQ(result["texts"], lines.size());
  EXPECT_GE(lines.size(), 500U / 19U);
  for (const Json& line : lines) {
    EXPECT_EQ(line.size(), 1U);
    EXPECT_FALSE(line["text"].get<std::string>().empty());
  }
  EXPECT_FALSE(fs::exists(path("a.jsonl.partial")));
}

TEST_F(Sample, TheSeedDecidesAndNotTheBatch) {
  const std::string want = whole("a.jsonl");
  EXPECT_EQ(whole("b.jsonl", {"--batch", "3", "--threads", "1"}), want);
  EXPECT_EQ(whole("folder/c.jsonl", {"--batch", "1", "--threads", "2"}), want);
  EXPECT_NE(whole("d.jsonl", {"--seed", "2"}), want);
  EXPECT_NE(whole("e.jsonl", {"--top-k", "5"}), want);
  EXPECT_NE(whole("f.jsonl", {"--top-p", "0.5"}), want);
}

TEST_F(Sample, EveryTextBeginsWithThePrompt) {
  whole("a.jsonl", {"--prompt", "The cost"});
  for (const Json& line : read_jsonl(path("a.jsonl"))) {
    EXPECT_TRUE(line["text"].get<std::string>().starts_with("The cost")) << line;
  }
}

TEST_F(Sample, GoesOnAfterAKillAtAnyMoment) {
  const std::string want = whole("a.jsonl"), all = gathered("b.jsonl");
  const std::size_t second = all.find('\n', all.find('\n') + 1);
  for (const std::size_t kept : {std::size_t{0}, std::size_t{5}, second + 1, second + 9,
                                 all.size() / 2, all.size() - 1, all.size()}) {
    write_bytes(path("b.jsonl.partial/sequences.jsonl"), all.substr(0, kept));
    fs::copy(path("b.jsonl.partial"), path("c.jsonl.partial"), fs::copy_options::recursive);
    // the options name the file, so that the copy goes on under its first name
    EXPECT_EQ(whole("b.jsonl", {"--resume"}), want) << kept;
    EXPECT_FALSE(fs::exists(path("b.jsonl.partial")));
    fs::remove(path("b.jsonl"));
    fs::rename(path("c.jsonl.partial"), path("b.jsonl.partial"));
  }
}

TEST_F(Sample, GoingOnIsAskedForAndChangesNothing) {
  gathered("b.jsonl");
  expect_usage(sample("b.jsonl"), "--resume goes on");
  expect_usage(sample("b.jsonl", {"--resume", "--batch", "3"}), "batch = 16, now 3");
  expect_usage(sample("b.jsonl", {"--resume", "--seed", "3"}), "seed = 1, now 3");
  const std::string written = whole("b.jsonl", {"--resume"});
  expect_usage(sample("b.jsonl"), "is there already");
  EXPECT_EQ(whole("b.jsonl", {"--resume"}), written);  // is whole
}

TEST_F(Sample, AWholeFileOfOtherOptionsIsNotTakenForThisOne) {
  const std::string written = whole("a.jsonl");
  expect_usage(sample("a.jsonl", {"--resume", "--seed", "3"}), "seed = 1, now 3");
  expect_usage(sample("a.jsonl", {"--resume", "--top-k", "5"}), "top-k = 0, now 5");
  expect_usage(sample("a.jsonl", {"--resume", "--prompt", "The"}), "prompt = not given, now");
  EXPECT_EQ(whole("a.jsonl", {"--resume"}), written);
  fs::create_directories(path("elsewhere"));
  fs::rename(path("a.jsonl"), path("elsewhere/b.jsonl"));
  fs::rename(path("a.jsonl.run.toml"), path("elsewhere/b.jsonl.run.toml"));
  EXPECT_EQ(whole("elsewhere/b.jsonl", {"--resume"}), written);  // wherever it lies
  fs::remove(path("elsewhere/b.jsonl.run.toml"));
  expect_usage(sample("elsewhere/b.jsonl", {"--resume"}), "b.jsonl.run.toml");
  EXPECT_EQ(read_bytes(path("elsewhere/b.jsonl")), written);
}

TEST_F(Sample, AWholeFileOfAnotherModelIsNotTakenForThisOne) {
  const std::string model = path("model");
  fs::copy(golden_folder("gemma1"), model);
  const Words words = {"sample", model, "--tokens", "50", "--out", path("a.jsonl"), "--resume"};
  ASSERT_EQ(run(words).code, kExitDone);
  EXPECT_EQ(run(words).code, kExitDone);
  write_bytes(model + "/config.json", read_bytes(model + "/config.json") + " ");
  expect_usage(run(words), "MODEL has changed");
}

// A kill between the file and the end may leave the sequences beside it.
TEST_F(Sample, SequencesAreRemovedOnlyBesideTheirOwnFile) {
  const std::string written = whole("a.jsonl");
  fs::create_directories(path("a.jsonl.partial"));
  expect_usage(sample("a.jsonl", {"--resume", "--seed", "3"}), "seed");
  EXPECT_TRUE(fs::exists(path("a.jsonl.partial")));
  EXPECT_EQ(whole("a.jsonl", {"--resume"}), written);
  EXPECT_FALSE(fs::exists(path("a.jsonl.partial")));
}

TEST_F(Sample, WhatItKeepsRepeatsIt) {
  const std::string written = whole("a.jsonl", {"--top-k", "7", "--prompt", "The"});
  ASSERT_EQ(
      run({"sample", "--config", path("a.jsonl.run.toml"), "--out", path("again.jsonl")}).code,
      kExitDone);
  EXPECT_EQ(read_bytes(path("again.jsonl")), written);
}

TEST_F(Sample, RefusesWhatCannotBe) {
  expect_usage(sample("a.txt"), ".jsonl");
  expect_usage(sample("a.jsonl", {"--top-p", "0"}), "--top-p");
  expect_usage(sample("a.jsonl", {"--batch", "0"}), "--batch");
  expect_usage(sample("a.jsonl", {"--prompt",
                                  "cost of the features of the data, the cost, the cost,"
                                  " the cost and the cost and the length of the text"}),
               "--prompt");
  const std::string model = golden_folder("gemma1").string(), out = path("a.jsonl");
  expect_usage(run({"sample", model, "--tokens", "9", "--temp", "0", "--out", out}), "--temp");
  expect_usage(run({"sample", model, "--tokens", "0", "--out", out}), "--tokens");
  expect_usage(run({"sample", model, "--out", out}), "--tokens");
  expect_failure(run({"sample", "/no/such/model", "--tokens", "9", "--out", out}),
                 {"/no/such/model"});
  expect_failure(run({"sample", golden_folder("gemma2").string(), "--tokens", "9", "--out", out}),
                 {"tokenizer"});
  EXPECT_TRUE(fs::is_empty(scratch_.path()));
}

TEST_F(Sample, AnalyzeAndConvertReadTheModelsOwnTextWhereThereIsNoOther) {
  const std::string model = golden_folder("gemma1").string();
  const Words own = {"--own-tokens", "300", "--context", "16", "--cache", path("cache")};
  const auto with = [&](Words words) {
    words.insert(words.end(), own.begin(), own.end());
    ::testing::internal::CaptureStderr();
    const Outcome outcome = run(words);
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(outcome.code, kExitDone) << outcome.errors;
    return said;
  };
  EXPECT_NE(with({"analyze", model, "--features", "8", "--out", path("analysis")})
                .find("300 tokens of the model's own text, sampled now"),
            std::string::npos);
  EXPECT_NE(with({"convert", "--no-fit", model, "--centre", "--out", path("own")})
                .find("300 tokens of the model's own text, sampled before"),
            std::string::npos);
  std::string text;
  for (const auto& entry : fs::directory_iterator(path("cache"))) {
    text = entry.path().extension() == ".jsonl" ? entry.path().string() : text;
  }
  // The same as with that text given.
  ASSERT_EQ(run({"convert", "--no-fit", model, "--centre", "--data", text, "--context", "16",
                 "--out", path("given")})
                .code,
            kExitDone);
  EXPECT_EQ(read_bytes(path("own/model.safetensors")), read_bytes(path("given/model.safetensors")));
  // Nothing is sampled for what needs no text.
  ASSERT_EQ(
      run({"convert", "--no-fit", model, "--attention", "performer", "--out", path("plain")}).code,
      kExitDone);
  expect_usage(run({"convert", "--no-fit", model, "--own-tokens", "9", "--out", path("x")}),
               "--own-tokens");
  expect_usage(run({"analyze", model, "--own-tokens", "9", "--data", text, "--out", path("x")}),
               "--own-tokens");
}

TEST_F(Sample, WithoutATokenizerNoTextIsAnnounced) {
  const std::string model = golden_folder("gemma2").string();
  for (const Words& words :
       {Words{"analyze", model, "--cache", path("cache")},
        Words{"convert", "--no-fit", model, "--centre", "--cache", path("cache")},
        Words{"linearize", model}}) {
    Words all = words;
    all.insert(all.end(), {"--out", path("out")});
    ::testing::internal::CaptureStderr();
    expect_failure(run(all), {model, "tokenizer.model"});
    EXPECT_EQ(::testing::internal::GetCapturedStderr().find("own text"), std::string::npos);
    EXPECT_TRUE(fs::is_empty(scratch_.path())) << words.front();
  }
}

TEST_F(Sample, FromBrokenWeightsNoTextIsAnnounced) {
  const std::string model = path("model"), weights = model + "/model.safetensors";
  fs::copy(golden_folder("gemma1"), model);
  write_bytes(weights, read_bytes(weights).substr(0, 1000));
  ::testing::internal::CaptureStderr();
  expect_failure(run({"convert", "--no-fit", model, "--centre", "--out", path("out")}), {weights});
  EXPECT_EQ(::testing::internal::GetCapturedStderr().find("own text"), std::string::npos);
}

TEST_F(Sample, FinetuneWithoutTextNamesIt) {
  expect_usage(run({"finetune", golden_folder("gemma1").string(), "--out", path("run")}),
               "darkformer sample");
}

}  // namespace
}  // namespace darkformer::sample_test
