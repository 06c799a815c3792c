// Runs that go on with other options than they began with, in another place, or that never began.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/scratch_folder.h"
#include "darkformer/commands/program_testing.h"

namespace darkformer::resume_options_test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class ResumeOptions : public ::testing::Test {
 protected:
  ResumeOptions() {
    std::string words;
    for (int i = 0; i < 200; ++i) {
      words += "a b c d e f g ";
    }
    write_bytes(scratch_.path() / "text.txt", words);
  }

  std::string path(const std::string& name) const { return (scratch_.path() / name).string(); }

  // What the program says on standard error, logged lines and the last one. `code`: how it ends.
  static std::string say(const Words& words, int code) {
    ::testing::internal::CaptureStderr();
    const Outcome outcome = darkformer::run(words);
    const std::string text = ::testing::internal::GetCapturedStderr() + outcome.errors;
    EXPECT_EQ(outcome.code, code) << text;
    return text;
  }

  // A run of two steps in "run".
  std::string begin(const Words& more = {}) const {
    Words words = {"finetune", golden_folder("gemma1").string()};
    words.insert(words.end(), {"--data", path("text.txt"), "--cache", path("cache"), "--out",
                               path("run"), "--context", "16", "--batch", "2", "--steps", "2"});
    words.insert(words.end(), {"--lr", "3e-3", "--checkpoint-every", "1"});
    words.insert(words.end(), more.begin(), more.end());
    return say(words, kExitDone);
  }

  std::string go_on(const Words& more, int code = kExitDone) const {
    Words words = {"finetune", "--out", path("run"), "--resume"};
    words.insert(words.end(), more.begin(), more.end());
    return say(words, code);
  }

  std::string kept() const { return read_bytes(scratch_.path() / "run" / "run.toml"); }

  static void expect_part(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text << " has no " << part;
  }

  ScratchFolder scratch_;
};

TEST_F(ResumeOptions, NothingToResumeIsSaidAndStarts) {
  expect_part(begin({"--resume"}), path("run") + ": nothing to resume, starts at the first step");
  EXPECT_TRUE(fs::exists(path("run/final/config.json")));
}

TEST_F(ResumeOptions, WhatIsNotGivenIsAsTheRunBegan) {
  EXPECT_EQ(begin().find("nothing to resume"), std::string::npos);
  const std::string said = go_on({"--steps", "3"});
  expect_part(said, "--steps: 3 from here on, 2 before");
  EXPECT_EQ(said.find("--lr"), std::string::npos) << said;
  expect_part(kept(), "lr = 0.003\n");
  expect_part(kept(), "steps = 3\n");
  EXPECT_TRUE(fs::exists(path("run/checkpoints/step-3")));
}

TEST_F(ResumeOptions, AnotherRateIsTakenAndTold) {
  begin();
  expect_part(go_on({"--lr", "1e-5", "--steps", "3"}),
              "--lr: 1e-05 from here on, 0.003 before: the result will be that of neither alone");
  expect_part(kept(), "lr = 1e-05\n");
}

TEST_F(ResumeOptions, AnotherModelIsNotTaken) {
  begin();
  const std::string model = golden_folder("gemma1").string();
  fs::copy(model, path("other"));
  expect_part(go_on({path("other"), "--steps", "3"}),
              "MODEL: " + path("other") + ", but the run in " + path("run") + " was begun with " +
                  model + " and goes on from its checkpoint, not from there");
}

TEST_F(ResumeOptions, BookKeepingMayChangeSilently) {
  begin();
  const std::string said = go_on({"--keep", "1", "--micro-batch", "1", "--eval-every", "1"});
  EXPECT_EQ(said.find("from here on"), std::string::npos) << said;
}

TEST_F(ResumeOptions, WhatTheCheckpointFixesIsRefused) {
  begin();
  const std::string before = kept();
  const std::vector<Words> wrong = {{"--context", "8"},
                                    {"--seed", "7"},
                                    {"--train", "attention"},
                                    {"--optimizer", "sgd"},
                                    {"--held-out", "0.1"}};
  for (const Words& option : wrong) {
    const std::string said = go_on({option[0], option[1], "--steps", "3"}, kExitUsage);
    expect_part(said, option[0] + ": " + option[1] + ", but the run in " + path("run") +
                          " was begun with ");
  }
  EXPECT_EQ(kept(), before);
  EXPECT_FALSE(fs::exists(path("run/checkpoints/step-3")));
}

TEST_F(ResumeOptions, AnotherTextIsRefusedAndTheRunStaysAsItWas) {
  begin();
  const std::string before = kept();
  write_bytes(scratch_.path() / "other.txt", std::string(2000, 'x') + " y z");
  const std::string said = go_on({"--data", path("other.txt"), "--steps", "3"}, kExitFailed);
  expect_part(said, "belongs to another corpus");
  EXPECT_EQ(said.find("--data: "), std::string::npos) << said;
  EXPECT_EQ(kept(), before);
  fs::rename(path("text.txt"), path("moved.txt"));  // the same text under another name will do
  go_on({"--data", path("moved.txt"), "--steps", "3"});
  EXPECT_TRUE(fs::exists(path("run/checkpoints/step-3")));
}

TEST_F(ResumeOptions, ARunOfAnotherCommandIsRefused) {
  begin();
  expect_part(
      say({"pretrain", "--data", path("text.txt"), "--out", path("run"), "--resume"}, kExitUsage),
      "written for 'darkformer finetune'");
}

TEST_F(ResumeOptions, AMovedRunGoesOnWhereItIs) {
  begin();
  fs::copy(path("run"), path("copy"), fs::copy_options::recursive);
  say({"finetune", "--config", path("copy/run.toml"), "--resume", "--steps", "3"}, kExitDone);
  EXPECT_TRUE(fs::exists(path("copy/checkpoints/step-3")));
  EXPECT_FALSE(fs::exists(path("run/checkpoints/step-3")));
  EXPECT_NE(read_bytes(path("copy/run.toml")).find("out = '" + path("copy") + "'"),
            std::string::npos);
  // --out that was typed is meant.
  say({"finetune", "--config", path("copy/run.toml"), "--resume", "--steps", "4", "--out",
       path("run")},
      kExitDone);
  EXPECT_TRUE(fs::exists(path("run/checkpoints/step-4")));
  EXPECT_FALSE(fs::exists(path("copy/checkpoints/step-4")));
}

// Before any text is read, let alone a vocabulary learned: the text is not there.
TEST_F(ResumeOptions, AModelThatCannotBeIsRefusedAtOnce) {
  const auto refused = [&](const Words& size, const std::string& part) {
    Words words = {"pretrain", "--data", path("missing.txt"), "--out", path("tiny")};
    words.insert(words.end(), size.begin(), size.end());
    return expect_part(say(words, part[0] == '-' ? kExitUsage : kExitFailed), part);
  };
  refused({"--hidden", "1000000000"}, "\"hidden_size\" is 1000000000");
  refused({"--hidden", "1000000"}, "try a smaller model: --hidden");
  refused({"--layers", "1000000000000"}, "--layers");
  EXPECT_FALSE(fs::exists(path("tiny")));
}

}  // namespace
}  // namespace darkformer::resume_options_test
