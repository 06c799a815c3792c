// info, logits and generate on the golden models, as a user runs them.
// SPDX-License-Identifier: Apache-2.0
#include "darkformer/base/scratch_folder.h"
#include "darkformer/base/threads.h"
#include "darkformer/checkpoint/golden_model.h"
#include "darkformer/commands/program_testing.h"
#include "darkformer/text/tokenizer.h"

namespace darkformer::model_commands_test {
namespace {

namespace fs = std::filesystem;

std::string joined(const at::Tensor& ids) {
  std::string text;
  for (std::int64_t i = 0; i < ids.numel(); ++i) {
    text += (i > 0 ? "," : "") + std::to_string(ids[i].item<std::int64_t>());
  }
  return text;
}

std::string joined(const Json& ids) {
  std::string text;
  for (const Json& id : ids) {
    text += (text.empty() ? "" : ",") + id.dump();
  }
  return text;
}

class ModelCommands : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (scratch_.path() / name).string(); }

  // generate on gemma1, which has a tokenizer.
  Outcome generate(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"generate", golden_folder("gemma1").string()});
    return run(arguments);
  }

  ScratchFolder scratch_;
};

TEST_F(ModelCommands, LibtorchLeavesTheThreadsAsAsked) {
  const std::string folder = golden_folder("gemma1").string();
  for (const int count : {3, 2}) {
    ASSERT_EQ(run({"logits", folder, "--ids", "2,3", "--out", path("l"), "--threads",
                   std::to_string(count)})
                  .code,
              kExitDone);
    EXPECT_EQ(threads(), count);
  }
}

TEST_F(ModelCommands, LogitsEqualTheGoldenOnes) {
  for (const char* name : {"gemma1", "gemma2", "gemma3"}) {
    const GoldenModel golden(name);
    const at::Tensor ids = golden.tensor("input_ids");
    for (const bool rounded : {false, true}) {
      const Outcome outcome =
          run({"logits", golden.folder.string(), "--ids", joined(ids[0]), "--out", path("l"),
               "--embed-scale", rounded ? "bf16" : "float32"});
      ASSERT_EQ(outcome.code, kExitDone) << outcome.errors;
      const SafetensorsFile file(path("l"));
      const at::Tensor got = copied_tensor(*file.find("logits"));
      const at::Tensor want = golden.tensor(rounded ? "logits_bf16scale" : "logits")[0];
      EXPECT_EQ(got.scalar_type(), at::kFloat);
      EXPECT_TRUE(copied_tensor(*file.find("ids")).equal(ids[0]));
      EXPECT_LT(largest_difference(got.slice(0, got.size(0) - want.size(0)), want), kGoldenLogits);
    }
  }
}

TEST_F(ModelCommands, GreedyGenerationIsTheGoldenOne) {
  for (const char* name : {"gemma1", "gemma2", "gemma3"}) {
    const GoldenModel golden(name);
    const Outcome outcome =
        run({"generate", golden.folder.string(), "--ids", joined(golden.facts["greedy_prompt"]),
             "-n", "24", "--temp", "0", "--ignore-eos", "--json"});
    ASSERT_EQ(outcome.code, kExitDone) << outcome.errors;
    EXPECT_EQ(outcome.json()["ids"], golden.facts["greedy_ids"]) << name;
    EXPECT_EQ(outcome.json()["end"], "max tokens");
  }
}

TEST_F(ModelCommands, AStateGoesOnAsIfThePromptWereReadAgain) {
  for (const char* name : {"gemma1", "gemma2", "gemma3"}) {
    const GoldenModel golden(name);
    const std::string folder = golden.folder.string();
    const std::string ids = joined(golden.tensor("input_ids")[0]);
    const auto first = run({"generate", folder, "--ids", ids, "-n", "8", "--temp", "1", "--json",
                            "--save-state", path("state")});
    ASSERT_EQ(first.code, kExitDone) << first.errors;
    const auto again = run(
        {"generate", folder, "--load-state", path("state"), "-n", "8", "--temp", "1", "--json"});
    ASSERT_EQ(again.code, kExitDone) << again.errors;
    EXPECT_EQ(again.json()["ids"], first.json()["ids"]);
    EXPECT_EQ(again.json()["prompt_tokens"], 0);
    const auto more = run(
        {"generate", folder, "--load-state", path("state"), "--ids", "5,6", "-n", "8", "--json"});
    const auto whole = run({"generate", folder, "--ids", ids + ",5,6", "-n", "8", "--json"});
    EXPECT_EQ(more.json()["ids"], whole.json()["ids"]);
    EXPECT_EQ(more.json()["state_tokens"], whole.json()["state_tokens"]);
  }
  expect_failure(generate({"--load-state", path("state")}), {path("state"), "another model"});
  write_bytes(path("state"), read_bytes(path("state")).substr(0, 5000));
  expect_failure(run({"generate", golden_folder("gemma3").string(), "--load-state", path("state")}),
                 {path("state")});
}

TEST_F(ModelCommands, TextInAndOut) {
  const Outcome outcome = generate({"--prompt", "The cost", "-n", "12", "--temp", "1.5"});
  ASSERT_EQ(outcome.code, kExitDone) << outcome.errors;
  EXPECT_EQ(outcome.errors, "");
  const Outcome json = generate({"--prompt", "The cost", "-n", "12", "--temp", "1.5", "--json"});
  EXPECT_EQ(outcome.out, json.json()["text"].get<std::string>() + "\n");
  write_bytes(path("prompt.txt"), "The cost");
  EXPECT_EQ(generate({"--file", path("prompt.txt"), "-n", "12", "--temp", "1.5"}).out, outcome.out);
  EXPECT_NE(generate({"--prompt", "The cost", "-n", "12", "--temp", "1.5", "--seed", "2"}).out,
            outcome.out);
}

TEST_F(ModelCommands, StopStringsEndTheText) {
  const std::string text =
      generate({"--prompt", "The cost", "-n", "30", "--temp", "2", "--json"}).json()["text"];
  ASSERT_GT(text.size(), 9U);
  const std::string stop = text.substr(6, 3);
  const Json stopped = generate({"--prompt", "The cost", "-n", "30", "--temp", "2", "--json",
                                 "--stop", "unlikely text", "--stop", stop})
                           .json();
  EXPECT_EQ(stopped["text"], text.substr(0, text.find(stop)));
  EXPECT_EQ(stopped["end"], "stop string");
}

TEST_F(ModelCommands, ChatPutsThePromptIntoATurn) {
  const Tokenizer tokenizer = Tokenizer::load(golden_folder("gemma1"));
  const ChatTurn turn{"user", "Hello"};
  const auto wanted = tokenizer.encode_chat({&turn, 1});
  const Json chat = generate({"--prompt", " Hello\n", "--chat", "-n", "5", "--json"}).json();
  EXPECT_EQ(chat["prompt_tokens"], wanted.size());
  EXPECT_EQ(chat["ids"],
            generate({"--ids", joined(Json(wanted)), "-n", "5", "--json"}).json()["ids"]);
}

TEST_F(ModelCommands, LogitsOfTextBeginWithBos) {
  ASSERT_EQ(
      run({"logits", golden_folder("gemma1").string(), "--text", "cost", "--out", path("l")}).code,
      kExitDone);
  const at::Tensor ids = copied_tensor(*SafetensorsFile(path("l")).find("ids"));
  EXPECT_EQ(ids[0].item<std::int64_t>(), 2);
  EXPECT_GT(ids.numel(), 1);
}

TEST_F(ModelCommands, InfoTellsShapeAndCost) {
  const Outcome outcome = run({"info", golden_folder("gemma3").string(), "--json"});
  ASSERT_EQ(outcome.code, kExitDone) << outcome.errors;
  const Json info = outcome.json();
  EXPECT_EQ(info["model_type"], "gemma3_text");
  EXPECT_EQ(info["parameters"], GoldenModel("gemma3").facts["params"]);
  // One full layer of one kv head: keys and values of 16 floats; six rings of 6.
  EXPECT_EQ(info["state_bytes_per_token"], 2 * 16 * 4);
  EXPECT_EQ(info["state_bytes_constant"], 6 * 6 * 2 * 16 * 4 + 7 * 8);
  EXPECT_EQ(info["attention"].size(), 7U);
  const Outcome text = run({"info", golden_folder("gemma2").string()});
  for (const char* part : {"gemma2", "bfloat16", "sliding window 8", "4 layers"}) {
    EXPECT_NE(text.out.find(part), std::string::npos) << text.out;
  }
}

TEST_F(ModelCommands, WrongUse) {
  const std::string folder = golden_folder("gemma1").string();
  EXPECT_EQ(run({"logits", folder, "--out", path("l")}).code, kExitUsage);
  EXPECT_EQ(run({"logits", folder, "--ids", "2", "--text", "x", "--out", path("l")}).code,
            kExitUsage);
  EXPECT_EQ(generate({"--prompt", "x", "--ids", "2"}).code, kExitUsage);
  EXPECT_EQ(generate({"--prompt", "x", "--temp", "-1"}).code, kExitUsage);
  expect_failure(run({"logits", folder, "--ids", "2,512", "--out", path("l")}), {"512"});
  expect_failure(run({"generate", golden_folder("gemma2").string(), "--prompt", "x"}),
                 {"tokenizer.model", "--ids"});
  expect_failure(generate({"--file", path("nowhere.txt")}), {path("nowhere.txt")});
  expect_failure(run({"info", path("nowhere")}), {path("nowhere")});
}

}  // namespace
}  // namespace darkformer::model_commands_test
