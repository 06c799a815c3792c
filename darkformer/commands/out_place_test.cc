// --out over something that is not the command's own: exit code 2, one line, and nothing is lost.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/commands/out_place.h"

#include <map>

#include "darkformer/base/scratch_folder.h"
#include "darkformer/base/unprivileged.h"
#include "darkformer/commands/program_testing.h"

namespace darkformer::out_place_test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// Every file below a folder with its bytes.
std::map<std::string, std::string> files_below(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    files[entry.path().string()] = entry.is_regular_file() ? read_bytes(entry.path()) : "";
  }
  return files;
}

class OutPlace : public ::testing::Test {
 protected:
  OutPlace() {
    fs::copy(golden_folder("gemma1"), model_);
    std::string words;
    for (int i = 0; i < 300; ++i) {
      words += "a b c d e f g ";
    }
    write_bytes(text_, words);
    fs::permissions(scratch_.path(), fs::perms::all);  // for the test without root's rights
  }

  fs::path path(const std::string& name) const { return scratch_.path() / name; }

  // Each command that fills a folder, but for --out.
  std::vector<Words> folder_commands() const {
    const Words data = {"--data", text_.string(), "--cache", path("cache").string()};
    std::vector<Words> commands = {
        {"convert", model_.string(), "--attention", "performer"},
        {"analyze", model_.string(), "--context", "16", "--tokens", "256"},
        {"linearize", model_.string(), "--context", "16", "--steps", "1"},
        {"finetune", model_.string(), "--context", "16", "--steps", "1", "--batch", "1"},
        {"finetune", model_.string(), "--context", "16", "--steps", "1", "--batch", "1",
         "--resume"},
        {"pretrain", "--context", "16", "--steps", "1"},
        {"variance"},
        {"reproduce", "qkv-only", "--report-only", "--model", model_.string(), "--held-out",
         text_.string()},
    };
    for (Words& words : commands) {
      const bool reads = words[0] != "variance" && words[0] != "convert";
      words.insert(words.end(), data.begin(), data.begin() + (reads ? 2 : 0));
    }
    return commands;
  }

  void expect_refused(Words words, const fs::path& out, const std::string& reason) const {
    const auto before = files_below(scratch_.path());
    words.insert(words.end(), {"--out", out.string()});
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, kExitUsage) << words[0] << ": " << outcome.errors;
    EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1) << outcome.errors;
    EXPECT_NE(outcome.errors.find(reason), std::string::npos) << words[0] << outcome.errors;
    EXPECT_EQ(files_below(scratch_.path()), before) << words[0];
  }

  ScratchFolder scratch_;
  fs::path model_ = scratch_.path() / "model";
  fs::path text_ = scratch_.path() / "text.txt";
};

TEST_F(OutPlace, AFolderOfSomebodyElse) {
  fs::create_directories(path("theirs/checkpoints/step-1"));
  for (const char* name : {"analysis.json", "results.json", "report.html", "claims.json",
                           "log.jsonl", "checkpoints/step-1/mine"}) {
    write_bytes(path("theirs") / name, "{\"step\":1}\n");
  }
  for (const Words& words : folder_commands()) {
    expect_refused(words, path("theirs"), "holds other files");
  }
}

TEST_F(OutPlace, TheModelItself) {
  fs::create_directory_symlink(model_, path("link"));
  for (const Words& words : folder_commands()) {
    if (words.size() > 1 && words[1] == model_) {
      expect_refused(words, model_, "the model's own folder");
      expect_refused(words, path("link"), "the model's own folder");
      expect_refused(words, model_ / "new", "inside the model's own folder");
      expect_refused(words, path("link/new"), "inside the model's own folder");
    } else {
      expect_refused(words, model_, "holds a model");
    }
  }
}

TEST_F(OutPlace, AFileOrALinkToNothing) {
  fs::create_symlink(path("nowhere"), path("dangling"));
  for (const Words& words : folder_commands()) {
    expect_refused(words, text_, "is a file, wanted a folder name");
    expect_refused(words, path("dangling"), "is a link that leads nowhere");
  }
}

TEST_F(OutPlace, ARunOfAnotherCommand) {
  fs::create_directory(path("run"));
  write_bytes(path("run/run.toml"), "# ours\ncommand = \"pretrain\"\n");
  for (const Words& words : folder_commands()) {
    const bool trains = words[0] == "finetune" || words[0] == "pretrain";
    expect_refused(words, path("run"), trains ? "run" : "holds other files");
  }
}

TEST_F(OutPlace, AFolderThatCannotBeWritten) {
  fs::create_directory(path("closed"));
  fs::permissions(path("closed"), fs::perms::owner_read | fs::perms::owner_exec);
  const Unprivileged nobody;
  for (Words words : folder_commands()) {
    words.insert(words.end(), {"--out", path("closed/new").string()});
    expect_failure(run(words),
                   {path("closed/new").string(), "cannot be written: Permission denied"});
  }
}

TEST_F(OutPlace, WhatTheCommandItselfWroteIsReplaced) {
  const Words analyze = folder_commands()[1];
  Words words = analyze;
  words.insert(words.end(), {"--features", "4", "--out", path("analysis").string(), "--quiet"});
  ASSERT_EQ(run(words).code, 0);
  write_bytes(path("analysis/notes"), "mine");
  write_bytes(path("analysis/analysis.json"), "");
  EXPECT_EQ(run(words).code, 0);
  EXPECT_NE(read_bytes(path("analysis/analysis.json")), "");
  EXPECT_EQ(read_bytes(path("analysis/notes")), "mine");
}

TEST_F(OutPlace, NamesInTheCurrentFolder) {
  const fs::path before = fs::current_path();
  fs::current_path(model_);
  EXPECT_NO_THROW(check_out_folder("new"));
  EXPECT_NO_THROW(check_out_folder("new/deeper"));
  EXPECT_THROW(check_outside("new", model_), UsageError);
  EXPECT_THROW(check_outside(".", model_), UsageError);
  EXPECT_NO_THROW(check_outside("../new", model_));
  EXPECT_NO_THROW(check_outside("../model-2", model_));
  fs::current_path(before);
}

TEST_F(OutPlace, LeftoversOfAKilledCallDoNotCount) {
  fs::create_directory(path("out"));
  write_bytes(path("out/.run.toml.partial"), "command");
  EXPECT_NO_THROW(check_out_folder(path("out")));
}

TEST_F(OutPlace, FilesOfSomebodyElse) {
  const std::string weights = (model_ / "model.safetensors").string();
  expect_refused({"logits", model_.string(), "--text", "a"}, weights, "holds no logits");
  expect_refused({"logits", model_.string(), "--text", "a"}, text_, "holds no logits");
  fs::create_directory(path("run"));
  write_bytes(path("run/log.jsonl"), "{\"step\":1,\"loss\":1}\n");
  expect_refused({"report", path("run").string()}, path("run/log.jsonl"), "holds no page");
  const auto before = files_below(model_);
  const Outcome state =
      run({"generate", model_.string(), "--prompt", "a", "-n", "1", "--save-state", weights});
  EXPECT_EQ(state.code, kExitUsage);
  EXPECT_NE(state.errors.find("another --save-state"), std::string::npos) << state.errors;
  EXPECT_EQ(files_below(model_), before);
}

TEST_F(OutPlace, FilesOfTheCommandItselfAreReplaced) {
  const std::string logits = path("logits").string(), state = path("state").string();
  for (int call = 0; call < 2; ++call) {
    EXPECT_EQ(run({"logits", model_.string(), "--text", "a", "--out", logits}).code, 0);
    EXPECT_EQ(
        run({"generate", model_.string(), "--prompt", "a", "-n", "1", "--save-state", state}).code,
        0);
  }
}

}  // namespace
}  // namespace darkformer::out_place_test
